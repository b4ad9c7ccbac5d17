package main

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers every line with itself until the test ends.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// client is one connection through a link to an echo.
type client struct {
	*testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func dialThrough(t *testing.T) (*link, *client) {
	t.Helper()
	l, err := openLink("postgres://" + echo(t) + "/x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	conn, err := net.Dial("tcp", l.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return l, &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) say(line string) {
	c.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.Fatal(err)
	}
}

// hear waits for a line, for a short time if it is not to come.
func (c *client) hear(wait time.Duration) (string, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		c.Fatal(err)
	}
	return c.lines.ReadString('\n')
}

const (
	long  = 30 * time.Second
	short = 50 * time.Millisecond
)

func TestALinkCarries(t *testing.T) {
	_, c := dialThrough(t)
	c.say("one")
	if line, err := c.hear(long); line != "one\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestAStalledLinkDeliversLate(t *testing.T) {
	for _, state := range []linkState{linkMute, linkDeaf} {
		l, c := dialThrough(t)
		l.set(state)
		c.say("late")
		if line, err := c.hear(short); err == nil {
			t.Errorf("state %d: %q came through", state, line)
		}
		l.set(linkWhole)
		if line, err := c.hear(long); line != "late\n" {
			t.Errorf("state %d: %q, %v", state, line, err)
		}
	}
}

func TestACutLinkResetsAndRefuses(t *testing.T) {
	l, c := dialThrough(t)
	c.say("one")
	if _, err := c.hear(long); err != nil {
		t.Fatal(err)
	}
	l.set(linkCut)
	if line, err := c.hear(long); err == nil {
		t.Errorf("%q", line)
	}
	conn, err := net.Dial("tcp", l.listener.Addr().String())
	if err == nil {
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(long))
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a new connection came through")
	}
}

func TestAWatchHoldsItsWordBack(t *testing.T) {
	l, c := dialThrough(t)
	w := newWatch("PREPARE", true)
	l.add(w)
	c.say("BEGIN")
	if line, err := c.hear(long); line != "BEGIN\n" {
		t.Errorf("%q, %v", line, err)
	}
	c.say("PREPARE TRANSACTION")
	<-w.caught
	if line, err := c.hear(short); err == nil {
		t.Errorf("%q came through", line)
	}
	close(w.acted)
	if line, err := c.hear(long); line != "PREPARE TRANSACTION\n" {
		t.Errorf("%q, %v", line, err)
	}
}
