package storm

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/integration/servers"
)

// crew are the candidates, each behind a link of its own: those of even slots directly, the others through a pooler.
type crew struct {
	dir   string
	seed  uint64
	slots []*slot
	trunk *proxy.Proxy // between the pooler and its server

	pooler *servers.Pooler

	mu       sync.Mutex
	evidence evidence
	faults   []string // of the candidates themselves
}

// slot is a candidate, whichever process it is at present. Its lock is held while something is done to it.
type slot struct {
	sync.Mutex
	number, life int
	url          string
	link         *proxy.Proxy
	process      *process
	heard        chan struct{} // closed when the present process has said its last word
}

// muster starts the crew. It ends with the test.
func muster(t *testing.T, dir, direct string, seed uint64) *crew {
	t.Helper()
	c := &crew{dir: dir, seed: seed, trunk: proxyFor(t, direct)}
	c.pooler = servers.PoolerFor(t, servers.PoolerOptions{URL: c.trunk.URL(), PoolSize: 12})
	for n := range slots {
		s := &slot{number: n}
		if n%2 == 0 {
			s.link = proxyFor(t, direct)
			s.url = with(t, s.link.URL(), small)
		} else {
			s.link = proxyFor(t, c.pooler.URL(direct))
			s.url = with(t, s.link.URL(), small)
			if n%4 == 3 {
				s.url = with(t, s.url, "&transaction_pooling=true") // the others find it out by themselves, storm or not
			}
		}
		c.slots = append(c.slots, s)
	}
	c.begin(t)
	return c
}

// begin starts a process in each slot. They end with the test.
func (c *crew) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, s := range c.slots {
			if s.process != nil {
				s.kill()
			}
		}
	})
	for _, s := range c.slots {
		if err := c.start(s); err != nil {
			t.Fatal(err)
		}
	}
}

// small is a pool for a candidate's writes.
const small = "&max_size=5&connect_timeout=2s&pool_acquire_timeout=2s"

// with adds options to a URL.
func with(t *testing.T, address, options string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the database's URL is none")
	}
	u.RawQuery += options
	return u.String()
}

func proxyFor(t *testing.T, url string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	// hare refuses a table of leases with a trigger. The one that takes the evidence is not to be seen.
	p.Replace(`AS "Triggers"`, `AS "Evidence"`)
	return p
}

// start begins a slot's next life.
func (c *crew) start(s *slot) (err error) {
	s.life++
	a := assignment{Slot: s.number, Life: s.life, Seed: c.seed, URL: s.url}
	if s.process, err = start("candidate", c.log(a.name())); err != nil {
		return err
	}
	heard := make(chan struct{})
	s.heard = heard
	go c.listen(s.process, a.name(), heard)
	return s.process.orders.Encode(a)
}

func (c *crew) log(candidate string) string {
	return filepath.Join(c.dir, "candidate-"+candidate+".log")
}

// listen takes down what a process says.
func (c *crew) listen(p *process, name string, heard chan struct{}) {
	defer close(heard)
	for {
		var w word
		err := p.words.Decode(&w)
		c.mu.Lock()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err != nil && p.killed.Load():
			c.mu.Unlock()
			return
		case err != nil:
			c.faults = append(c.faults, fmt.Sprintf("candidate %s talks nonsense: %v", name, err))
			c.mu.Unlock()
			return
		case w.Reading != nil:
			c.evidence.Readings = append(c.evidence.Readings, *w.Reading)
		case w.Write != nil:
			c.evidence.Writes = append(c.evidence.Writes, *w.Write)
		case w.Returns != "":
			c.evidence.Returns = append(c.evidence.Returns, name+": "+w.Returns)
		}
		c.mu.Unlock()
	}
}

// kill ends a slot's process and takes down its last words.
func (s *slot) kill() {
	s.process.killed.Store(true)
	_ = s.process.cmd.Process.Kill() // it may have ended, which stop finds out
	<-s.heard
	_ = s.process.cmd.Wait()
}

// stop ends all candidates in order, and finds those that have ended by themselves or do not end.
func (c *crew) stop() {
	var wait sync.WaitGroup
	for _, s := range c.slots {
		wait.Go(func() {
			_ = s.process.stdin.Close() // one that has ended is known to have
			timer := time.AfterFunc(40*time.Second, func() { _ = s.process.cmd.Process.Signal(syscall.SIGQUIT) })
			defer timer.Stop()
			<-s.heard
			if err := s.process.cmd.Wait(); err != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				name := assignment{Slot: s.number, Life: s.life}.name()
				text, _ := os.ReadFile(c.log(name)) // without it there is less to say
				c.faults = append(c.faults, fmt.Sprintf("candidate %s ended with %v:\n%s", name, err, text[max(0, len(text)-4000):]))
			}
		})
	}
	wait.Wait()
}
