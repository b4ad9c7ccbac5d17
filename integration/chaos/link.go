package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
)

// link is the network between one worker and one server: it passes connections on, byte by byte, until it is told
// otherwise. What is stalled is not lost: it arrives late, after the process that sent it has given up or died, as a
// network does that comes back.
type link struct {
	url      string // of the database, through the link
	server   string
	listener net.Listener

	mu      sync.Mutex
	state   linkState
	heal    chan struct{} // closed when the state ends
	pipes   map[*pipe]bool
	watches []*watch
}

// linkState is what is wrong with a link.
type linkState uint8

const (
	linkWhole linkState = iota
	linkCut             // connections are reset, and new ones refused
	linkMute            // nothing arrives in either direction
	linkDeaf            // what the client says arrives, and no answer comes back
)

// pipe is one connection through the link.
type pipe struct{ client, server net.Conn }

// reset ends both sides as a network does that is gone: without a farewell.
func (p *pipe) reset() {
	for _, side := range []net.Conn{p.client, p.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may be closed
			tcp.Close()
		}
	}
}

// watch waits for a word of a client, on one link or several.
type watch struct {
	word   string
	hold   bool // the word waits until acted is closed
	caught chan struct{}
	acted  chan struct{}
	once   sync.Once
}

func newWatch(word string, hold bool) *watch {
	return &watch{word: word, hold: hold, caught: make(chan struct{}), acted: make(chan struct{})}
}

// look looks at what a client says.
func (w *watch) look(said []byte) {
	if !bytes.Contains(said, []byte(w.word)) {
		return
	}
	w.once.Do(func() { close(w.caught) })
	if w.hold {
		<-w.acted
	}
}

func openLink(database string) (*link, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{server: u.Host, listener: listener, pipes: map[*pipe]bool{}}
	u.Host = listener.Addr().String()
	l.url = u.String()
	go l.serve()
	return l, nil
}

func (l *link) close() {
	l.listener.Close()
	l.set(linkCut)
}

// set breaks the link, or heals it.
func (l *link) set(state linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	if state == linkCut {
		for p := range l.pipes {
			p.reset()
		}
	}
	if l.heal != nil {
		close(l.heal)
		l.heal = nil
	}
	if state != linkWhole {
		l.heal = make(chan struct{})
	}
}

// add has w watch the link.
func (l *link) add(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = append(l.watches, w)
}

// remove ends what add began.
func (l *link) remove(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = slices.DeleteFunc(l.watches, func(other *watch) bool { return other == w })
}

// look has the watches look at what a client says.
func (l *link) look(said []byte) {
	l.mu.Lock()
	watches := slices.Clone(l.watches)
	l.mu.Unlock()
	for _, w := range watches {
		w.look(said)
	}
}

// pass waits until the link passes on what a client, or else a server, has said; false is a link that is cut.
func (l *link) pass(fromClient bool) bool {
	for {
		l.mu.Lock()
		state, heal := l.state, l.heal
		l.mu.Unlock()
		switch {
		case state == linkCut:
			return false
		case state == linkWhole, state == linkDeaf && fromClient:
			return true
		}
		<-heal
	}
}

func (l *link) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.carry(client)
	}
}

// carry carries one connection until either side ends it.
func (l *link) carry(client net.Conn) {
	p := &pipe{client: client}
	defer p.reset()
	if !l.pass(true) {
		return
	}
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	p.server = server
	l.mu.Lock()
	l.pipes[p] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pipes, p)
		l.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() { l.copy(p, server, client) })
	both.Go(func() { l.copy(p, client, server) })
	both.Wait()
}

// copy passes on what one side says, its end as well.
func (l *link) copy(p *pipe, to, from net.Conn) {
	chunk := make([]byte, 16<<10)
	for {
		n, err := from.Read(chunk)
		if from == p.client {
			l.look(chunk[:n])
		}
		if !l.pass(from == p.client) {
			p.reset()
			return
		}
		if n > 0 {
			if _, err := to.Write(chunk[:n]); err != nil {
				from.Close() // nobody listens to it any more
				return
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			_ = to.(*net.TCPConn).CloseWrite() // it may be closed
		default:
			to.Close()
		}
		return
	}
}
