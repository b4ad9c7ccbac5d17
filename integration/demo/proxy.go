package main

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
)

// proxy passes a PostgreSQL connection on, byte by byte, until the client says a certain word. That message never gets
// through: the network has died at the worst instant.
type proxy struct {
	url      string        // of the database, through the proxy
	caught   chan struct{} // closed when the word was held back
	word     []byte
	server   string
	listener net.Listener
	once     sync.Once
}

func holdBack(databaseURL, word string) (*proxy, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{caught: make(chan struct{}), word: []byte(word), server: u.Host, listener: listener}
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable") // the proxy reads what the client says
	u.RawQuery = query.Encode()
	p.url = u.String()
	go p.serve()
	return p, nil
}

func (p *proxy) close() { p.listener.Close() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.pass(client)
	}
}

// pass passes one connection on until either side closes it, or the word was held back and the client is gone.
func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	var said []byte // since the last message, as long as the word may still be in it
	chunk := make([]byte, 4096)
	for {
		n, err := client.Read(chunk)
		if err != nil {
			return
		}
		said = append(said, chunk[:n]...)
		if bytes.Contains(said, p.word) {
			p.once.Do(func() { close(p.caught) })
			_, _ = io.Copy(io.Discard, client)
			return
		}
		said = said[max(0, len(said)-len(p.word)):]
		if _, err := server.Write(chunk[:n]); err != nil {
			return
		}
	}
}
