package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/hare-go/hare/hare/backend"
)

// wire stands between pgx and the socket of one connection, or what TLS makes of it. It does two things that pgx has no
// place for. While the connection opens it looks at what the server asks for before pgx answers (auth.go). Later it lets a
// question of hare's own travel ahead of the next message, in the same write, and keeps the answer from pgx (again.go):
// so a session is asked without a round trip, whatever the message is. At all other times it passes everything on.
type wire struct {
	in  io.Reader
	out io.Writer

	ahead  []byte   // what goes ahead of the next message, or nil
	reader examiner // who looks at the server's messages; nil when nobody does
	whole  []byte   // what was looked at and is for pgx
	part   []byte   // what has come and was not looked at

	way     backend.Transport // how the connection is protected
	guarded                   // of the session at the other end
}

// examiner looks at one message of the server. It says whether pgx gets it, and who looks at the next one.
type examiner func(kind byte, body []byte) (pass bool, next examiner, err error)

// wireKey is where a connection's wire is found in pgx's custom data.
const wireKey = "hare wire"

// wired has the connection that will be opened with the configuration, which serves for no other, go over a wire.
func (d *database) wired(config *pgx.ConnConfig) {
	var last *wire // of the host, and the way to encrypt, that was tried last
	policy := policyOf(&config.Config)
	config.BuildFrontend = func(in io.Reader, out io.Writer) *pgproto3.Frontend {
		last = &wire{in: in, out: out, guarded: guarded{database: d}}
		if conn, ok := out.(net.Conn); ok {
			last.way = transportOf(conn, policy.verifies)
			last.reader = (&login{policy: policy, way: last.way}).examine
		}
		return pgproto3.NewFrontend(last, last)
	}
	config.AfterConnect = func(ctx context.Context, pg *pgconn.PgConn) error {
		pg.CustomData()[wireKey] = last
		return checkServer(ctx, pg)
	}
	withLine(config)
}

// connectWith opens a connection of its own.
func (d *database) connectWith(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config = config.Copy()
	d.wired(config)
	return pgx.ConnectConfig(ctx, config)
}

// wireOf is the wire of a connection that connectWith or the pool has opened.
func wireOf(pg *pgconn.PgConn) *wire { return pg.CustomData()[wireKey].(*wire) }

// longestMessage is more than any message that is looked at should have: a log-in's, or the answer to a question of hare's.
const longestMessage = 1 << 20

// Read gives pgx what the server says.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.whole) == 0 {
		if w.reader == nil && len(w.part) == 0 {
			return w.in.Read(p)
		}
		if err := w.more(p); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.whole)
	w.whole = w.whole[n:]
	return n, nil
}

// more reads on and looks at each message that is whole. It uses p for space.
func (w *wire) more(p []byte) error {
	n, err := w.in.Read(p)
	w.part = append(w.part, p[:n]...)
	for w.reader != nil && len(w.part) >= 5 {
		length := int64(binary.BigEndian.Uint32(w.part[1:])) + 1
		if length < 5 || length > longestMessage {
			return fmt.Errorf("the server sent a message of %d bytes, where none is so short or so long", length)
		}
		if int64(len(w.part)) < length {
			break
		}
		message := w.part[:length]
		pass, next, refused := w.reader(message[0], message[5:])
		if refused != nil {
			return refused
		}
		if pass {
			w.whole = append(w.whole, message...)
		}
		w.part, w.reader = w.part[length:], next
	}
	if w.reader == nil {
		w.whole, w.part = append(w.whole, w.part...), nil
	}
	if len(w.whole) > 0 {
		return nil // an error comes again with the next Read
	}
	return err
}

// Write sends what pgx says, with the question ahead of it if there is one.
func (w *wire) Write(p []byte) (int, error) {
	const terminate = 'X'
	if w.ahead == nil || len(p) == 0 || p[0] == terminate {
		return w.out.Write(p)
	}
	question := w.ahead
	w.ahead, w.reader = nil, w.answered
	n, err := w.out.Write(append(question, p...))
	return max(n-len(question), 0), err
}

// send has a question go ahead of the next message.
func (w *wire) send(sql string) {
	message, err := (&pgproto3.Query{String: sql}).Encode(nil)
	if err == nil { // it is short
		w.ahead = message
	}
}
