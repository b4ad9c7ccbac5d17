package session

import (
	"sync"

	"github.com/hare-go/hare/hare/backend"
)

// closers are what is to be done before a database closes, by the name of who wants it.
var closers = struct {
	sync.Mutex
	of map[backend.Database]map[string]func()
}{of: map[backend.Database]map[string]func(){}}

// BeforeClose has fn run before db closes, once for each name: work in the background comes to its end, and what is
// remembered of the database is forgotten. fn must be bounded.
func BeforeClose(db backend.Database, name string, fn func()) {
	closers.Lock()
	defer closers.Unlock()
	if closers.of[db] == nil {
		closers.of[db] = map[string]func(){}
	}
	closers.of[db][name] = fn
}

// Close closes a database after what BeforeClose was given for it.
func Close(db backend.Database) {
	closers.Lock()
	fns := closers.of[db]
	delete(closers.of, db)
	closers.Unlock()
	for _, fn := range fns {
		fn()
	}
	db.Close()
}
