package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// link is one connection: a client's near end and the server's far end.
type link struct {
	proxy *Proxy
	near  net.Conn

	mu       sync.Mutex
	far      net.Conn // nil before the client has said what it wants
	broken   bool
	black    bool           // nothing comes through any more
	asked    int            // questions that were sent on
	answered int            // answers that were complete, without that to the opening
	strikes  map[int]*Armed // what strikes the answer to a question, by its number

	spoke atomic.Bool // the server, after the client
	left  atomic.Bool // the client
}

// pieces is about how much is sent on at once.
const pieces = 64 << 10

// cut breaks both ends.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for _, end := range []net.Conn{l.near, l.far} {
		if tcp, ok := end.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a broken connection does not say goodbye
			end.Close()
		}
	}
}

// swallow loses what comes from now on.
func (l *link) swallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.black = true
}

func (l *link) isBlack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.black
}

// run passes messages on until both ends are closed. An end that is closed in order closes the other one after
// everything that was under way to it, unless the link is black: then the other end never hears of it.
func (l *link) run(config *tls.Config) {
	defer l.cut()
	defer l.left.Store(true)
	first, near, err := l.greet(config)
	if err != nil {
		return
	}
	l.proxy.await(false)
	far, err := l.connect()
	if err != nil {
		return
	}
	l.spoke.Store(true)
	var answering sync.WaitGroup
	answering.Go(func() {
		l.answer(far, near)
		l.proxy.await(true)
		if !l.isBlack() {
			near.Close()
		}
	})
	l.ask(near, far, first)
	l.left.Store(true)
	l.proxy.await(false)
	if tcp, ok := far.(*net.TCPConn); ok && !l.isBlack() {
		_ = tcp.CloseWrite()
	}
	answering.Wait()
}

// greet reads the message that opens a connection, and comes to terms about TLS before.
func (l *link) greet(config *tls.Config) (first message, near net.Conn, err error) {
	near = l.near
	if l.isBlack() {
		_, _ = io.Copy(io.Discard, near)
		return first, near, io.EOF
	}
	for {
		if first, err = readOpening(near); err != nil {
			return first, near, err
		}
		switch {
		case first.asksForTLS() && config != nil:
			_, err = near.Write([]byte("S"))
			near = tls.Server(near, config)
		case first.asksForTLS(), first.asksForGSS():
			_, err = near.Write([]byte("N"))
		default:
			return first, near, nil
		}
		if err != nil {
			return first, near, err
		}
	}
}

// connect opens the far end.
func (l *link) connect() (net.Conn, error) {
	l.proxy.mu.Lock()
	server := l.proxy.server
	l.proxy.mu.Unlock()
	far, err := net.Dial("tcp", server)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.far = far
	if l.broken {
		far.Close()
		return nil, net.ErrClosed
	}
	return far, nil
}

// ask passes on what the client says, from its first message on. What came in one piece goes on in one piece, and is
// one round trip.
func (l *link) ask(near, far net.Conn, m message) {
	in, out := bufio.NewReaderSize(near, pieces), bufio.NewWriterSize(far, pieces)
	for begins, unfinished := true, false; ; {
		l.proxy.await(false)
		if begins && !m.saysGoodbye() && l.spoke.Swap(false) {
			l.proxy.count()
		}
		struck := l.strike(m)
		if struck != nil && struck.Do == MakeUp {
			var err error
			if m, err = l.conceal(in, m, struck, unfinished); err != nil {
				return
			}
			struck = nil // until the answer comes
		}
		if struck != nil {
			_ = out.Flush() // errors of writing show when the answer is read
			if !l.suffer(struck) {
				struck = nil
				if !l.isBlack() {
					return
				}
			}
		}
		if struck != nil && struck.Do == Spoil {
			m = m.spoiled(struck.Statement)
		}
		if l.sends(m) {
			_, _ = out.Write(l.proxy.replaced(m).raw)
		}
		begins, unfinished = in.Buffered() == 0, !m.asks() && !m.introduces()
		if begins || struck != nil {
			_ = out.Flush()
		}
		if struck != nil {
			close(struck.passed)
		}
		var err error
		if m, err = read(in); err != nil {
			_ = out.Flush()
			return
		}
	}
}

// sends says whether a message of the client comes through, and counts it.
func (l *link) sends(m message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.asks() && !l.black {
		l.asked++
	}
	return !l.black
}

// strike is the fault that strikes a message now. One that strikes the answer waits for it.
func (l *link) strike(m message) *Armed {
	if m.introduces() || l.isBlack() {
		return nil
	}
	a := l.proxy.strike(m.statement())
	if a == nil || !a.Answer {
		return a
	}
	l.strikeAnswer(a)
	return nil
}

// strikeAnswer makes the fault strike the answer to the next question.
func (l *link) strikeAnswer(a *Armed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.strikes == nil {
		l.strikes = map[int]*Armed{}
	}
	l.strikes[l.asked+1] = a
}

// conceal reads the rest of a question that the server is not to hear, and gives what it is told instead. Its answer to that
// is where the made-up one has its place, behind the answers to everything that was asked before.
func (l *link) conceal(in *bufio.Reader, m message, a *Armed, unfinished bool) (instead message, err error) {
	for !m.asks() {
		if m, err = read(in); err != nil {
			return m, err
		}
	}
	a.partly = unfinished
	l.strikeAnswer(a)
	if a.Reply.Ready == 'I' && !unfinished {
		// Whoever says so has lost the server's session, with the transaction that was open in it.
		return query("ROLLBACK"), nil
	}
	return synchronize, nil
}

// answer passes on what the server says. An answer that is struck is kept until it is complete.
func (l *link) answer(far, near net.Conn) {
	in := bufio.NewReaderSize(far, pieces)
	var kept []byte
	// A client that is gone does not keep the server from its work: what it says is read to its end.
	send := func() {
		l.proxy.await(true)
		_, _ = near.Write(kept)
		kept = nil
	}
	for opened := false; ; {
		m, err := read(in)
		if err != nil {
			send()
			return
		}
		l.spoke.Store(true)
		end := m.endsAnswer()
		var struck *Armed
		if opened {
			struck = l.struck(end)
		}
		opened = opened || end
		kept = append(kept, m.raw...)
		if struck != nil {
			if !end {
				continue
			}
			if !l.suffer(struck) {
				struck, kept = nil, nil
			} else if struck.Do == MakeUp {
				kept = struck.instead(kept, m)
			}
		}
		switch {
		case l.isBlack():
			kept = nil
		case end || in.Buffered() == 0 || len(kept) > pieces:
			send()
		}
		if struck == nil {
			continue
		}
		close(struck.passed)
		if struck.Do == MakeUp && struck.Reply.Close {
			far.Close()
			return
		}
	}
}

// struck is what strikes the answer that is under way.
func (l *link) struck(end bool) *Armed {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.strikes[l.answered+1]
	if end {
		l.answered++
	}
	return a
}
