package postgres_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy passes bytes between clients and a server. It counts round trips, can lose the server's answers, and can speak
// TLS to the clients.
type proxy struct {
	listener net.Listener
	server   string
	tls      *tls.Config

	mu       sync.Mutex
	trips    int
	fromUs   bool // the last bytes came from a client
	mute     bool
	sockets  []net.Conn
	handlers sync.WaitGroup
}

// newProxy starts a proxy in front of the server of a URL.
func newProxy(t testing.TB, address string, config *tls.Config) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the server's address is no URL")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, server: u.Host, tls: config}
	p.handlers.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) host() string { return p.listener.Addr().String() }

// counting runs fn and returns how many round trips it took.
func (p *proxy) counting(fn func()) int {
	p.mu.Lock()
	p.trips, p.fromUs = 0, false
	p.mu.Unlock()
	fn()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// lose makes the proxy drop what the server says from now on.
func (p *proxy) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.handlers.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	p.keep(client)
	defer client.Close()
	if p.tls != nil {
		// The request for TLS has 8 bytes.
		if _, err := io.ReadFull(client, make([]byte, 8)); err != nil {
			return
		}
		if _, err := client.Write([]byte("S")); err != nil {
			return
		}
		client = tls.Server(client, p.tls)
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	p.keep(server)
	defer server.Close()
	p.handlers.Go(func() {
		defer client.Close()
		p.pass(client, server, false)
	})
	p.pass(server, client, true)
}

// pass copies from one side to the other until one of them closes.
func (p *proxy) pass(to io.Writer, from io.Reader, ours bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		if ours && !p.fromUs {
			p.trips++
		}
		p.fromUs = ours
		drop := p.mute && !ours
		p.mu.Unlock()
		if drop {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) keep(socket net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sockets = append(p.sockets, socket)
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, socket := range p.sockets {
		_ = socket.Close()
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.cut()
	p.handlers.Wait()
}
