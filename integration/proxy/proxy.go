// Package proxy stands between clients and a PostgreSQL server and decides what becomes of the messages between them:
// of one that is chosen by its SQL ([Proxy.Arm]), or of all ([Proxy.Swallow], [Proxy.Stall], [Proxy.Cut], [Proxy.Refuse]).
// It counts round trips as well.
//
// It passes whole messages of the protocol on as they are, makes up only those that a fault demands ([MakeUp]), and reads of them only where each begins, what statement it
// carries, and where an answer ends.
package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Proxy is one listener in front of one server. Its methods may be called from several goroutines.
type Proxy struct {
	listener net.Listener
	url      string
	closed   chan struct{}
	serving  sync.WaitGroup

	mu      sync.Mutex
	server  string
	tls     *tls.Config
	network network
	healed  chan struct{} // closed when the present stall ends
	links   map[*link]bool
	armed   []*Armed
	replace [2]string
	trips   int
}

// network is what becomes of a new connection, and of what is said when it stalls.
type network uint8

const (
	passing network = iota
	swallowing
	refusing
	stalling
	stallingAnswers
)

// Start starts a proxy in front of the server of a URL. The caller must close it.
func Start(databaseURL string) (*Proxy, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, errors.New("the database's URL is none") // url.Parse would quote it, its password included
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, server: u.Host, closed: make(chan struct{}), links: map[*link]bool{}}
	u.Host = p.Host()
	query := u.Query()
	query.Set("sslmode", "disable") // the proxy reads what the client says
	u.RawQuery = query.Encode()
	p.url = u.String()
	p.serving.Go(p.accept)
	return p, nil
}

// URL is the URL of the database, through the proxy.
func (p *Proxy) URL() string { return p.url }

// Host is the address that the proxy listens on, with its port.
func (p *Proxy) Host() string { return p.listener.Addr().String() }

// Lead leads the connections that are made from now on to the server of another URL.
func (p *Proxy) Lead(databaseURL string) error {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return errors.New("the database's URL is none") // as above
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = u.Host
	return nil
}

// Secure makes the proxy speak TLS with clients that ask for it. Without it they are told that there is none.
func (p *Proxy) Secure(config *tls.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tls = config
}

// Arm makes a fault strike the next message that it fits.
func (p *Proxy) Arm(f Fault) *Armed {
	a := &Armed{Fault: f, struck: make(chan struct{}), passed: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, a)
	return a
}

// Disarm takes a fault back that has not struck, and releases it if it has.
func (p *Proxy) Disarm(a *Armed) {
	p.mu.Lock()
	p.armed = slices.DeleteFunc(p.armed, func(other *Armed) bool { return other == a })
	p.mu.Unlock()
	a.Release()
}

// Replace puts a text in the place of another one, of the same length, in all SQL from now on.
func (p *Proxy) Replace(text, by string) {
	if len(text) != len(by) {
		panic("the proxy replaces texts of one length only")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace = [2]string{text, by}
}

// replaced is a message as it goes on.
func (p *Proxy) replaced(m message) message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replace[0] == "" || m.statement() == "" {
		return m
	}
	return message{kind: m.kind, raw: bytes.ReplaceAll(m.raw, []byte(p.replace[0]), []byte(p.replace[1]))}
}

// strike is the armed fault that fits a statement, which is no longer armed then, or nil.
func (p *Proxy) strike(statement string) *Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.armed {
		switch {
		case !strings.Contains(statement, a.Statement):
		case a.Skip > 0:
			a.Skip--
		default:
			p.armed = append(p.armed[:i:i], p.armed[i+1:]...)
			return a
		}
	}
	return nil
}

// Swallow makes a black hole of the network: all connections, new ones included, stay open, and nothing comes through.
func (p *Proxy) Swallow() {
	p.become(swallowing, (*link).swallow)
}

// Stall keeps everything back, new connections included, until [Proxy.Heal], which lets it arrive late, even if the client
// is gone by then.
func (p *Proxy) Stall() { p.become(stalling, func(*link) {}) }

// StallAnswers does so with what the server says, and lets through what it is told.
func (p *Proxy) StallAnswers() { p.become(stallingAnswers, func(*link) {}) }

// Refuse breaks all connections, and new ones at once.
func (p *Proxy) Refuse() {
	p.become(refusing, (*link).cut)
}

// Cut breaks all connections that are open now.
func (p *Proxy) Cut() { p.each((*link).cut) }

// Heal disarms all faults, lets through what was stalled and new connections, and breaks those in which something was
// swallowed.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.armed = nil
	p.mu.Unlock()
	p.become(passing, func(l *link) {
		if l.isBlack() {
			l.cut()
		}
	})
}

// count counts a round trip.
func (p *Proxy) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips++
}

// become changes the network, and does something to all connections before what is stalled goes on.
func (p *Proxy) become(n network, do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network = n
	for l := range p.links {
		do(l)
	}
	if p.healed != nil {
		close(p.healed)
		p.healed = nil
	}
	if n == stalling || n == stallingAnswers {
		p.healed = make(chan struct{})
	}
}

// await waits as long as what a client says, or what it is answered, is stalled.
func (p *Proxy) await(answer bool) {
	for {
		p.mu.Lock()
		n, healed := p.network, p.healed
		p.mu.Unlock()
		if n != stalling && (n != stallingAnswers || !answer) {
			return
		}
		select {
		case <-healed:
		case <-p.closed:
			return
		}
	}
}

func (p *Proxy) each(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

// Clients is the number of connections that clients have open.
func (p *Proxy) Clients() int {
	n := 0
	p.each(func(l *link) {
		if !l.left.Load() {
			n++
		}
	})
	return n
}

// RoundTrips is how many times a client has spoken after it had been answered.
func (p *Proxy) RoundTrips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// Close breaks all connections and ends the proxy.
func (p *Proxy) Close() {
	p.mu.Lock()
	for l := range p.links {
		l.cut() // before what is stalled learns of the end
	}
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	p.mu.Unlock()
	p.listener.Close()
	p.serving.Wait()
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.serve(near) })
	}
}

// serve passes one connection on for as long as it lasts.
func (p *Proxy) serve(near net.Conn) {
	l := &link{proxy: p, near: near}
	p.mu.Lock()
	select {
	case <-p.closed:
		l.cut()
	default:
	}
	switch p.network {
	case refusing:
		l.cut()
	case swallowing:
		l.swallow()
	}
	config := p.tls
	p.links[l] = true
	p.mu.Unlock()
	l.run(config)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
