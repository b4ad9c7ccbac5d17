package compile

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/hare-go/hare/internal/schema"
)

// The cache is a fixed array of sets of a few entries each, as a processor's cache is. Every caller of a process looks
// here for each query, so a look-up takes no lock, writes nothing that others read, and takes the same time however
// many shapes there are; and the size is bounded whatever programs do. Entries never change. Two callers that render one
// shape at the same time both put it in: that costs a place in the set and nothing else.
const (
	cacheSets = 256
	cacheWays = 8
	// keySize is the room that a key has from the start. maxKey is the longest key that is kept: what is longer is a query of
	// hundreds of conditions, unlikely to come again, and would let the cache's memory grow.
	keySize = 256
	maxKey  = 4096
)

var cacheSeed = maphash.MakeSeed()

type cache[V any] struct {
	sets [cacheSets]cacheSet[V]
}

type cacheSet[V any] struct {
	entries [cacheWays]atomic.Pointer[cacheEntry[V]]
	hand    atomic.Uint32
}

type cacheEntry[V any] struct {
	table *schema.Table
	key   string
	value V
	used  atomic.Bool // since the hand last passed
}

func (c *cache[V]) set(t *schema.Table, key []byte) *cacheSet[V] {
	// Most tables are read in the same few shapes, so the table must take part.
	hash := maphash.Bytes(cacheSeed, key) ^ maphash.String(cacheSeed, t.Name)
	return &c.sets[hash%cacheSets]
}

func (c *cache[V]) get(t *schema.Table, key []byte) (V, bool) {
	set := c.set(t, key)
	for i := range set.entries {
		e := set.entries[i].Load()
		if e != nil && e.table == t && e.key == string(key) {
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e.value, true
		}
	}
	var none V
	return none, false
}

// put keeps the value in the place of the first entry, from the hand on, that nobody used since the hand last passed.
func (c *cache[V]) put(t *schema.Table, key []byte, value V) {
	if len(key) > maxKey {
		return
	}
	entry := &cacheEntry[V]{table: t, key: string(key), value: value}
	set := c.set(t, key)
	for range cacheWays {
		place := &set.entries[set.hand.Add(1)%cacheWays]
		old := place.Load()
		if old == nil || !old.used.Swap(false) {
			place.Store(entry)
			return
		}
	}
	set.entries[set.hand.Add(1)%cacheWays].Store(entry)
}
