package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// message is one message of the protocol, see PostgreSQL's documentation, chapter Frontend/Backend Protocol: its kind, a
// letter, then its length, which counts itself, and the rest. The message that opens a connection has no letter.
type message struct {
	kind byte
	raw  []byte // all of it
}

// opening is the kind of the message that opens a connection.
const opening byte = 0

// longest is more than any message has; a length beyond it is not PostgreSQL's protocol.
const longest = 1 << 30

// The codes of opening messages that want something else first.
const (
	tlsRequest = 80877103
	gssRequest = 80877104
)

// read reads the next message.
func read(from io.Reader) (message, error) {
	var kind [1]byte
	if _, err := io.ReadFull(from, kind[:]); err != nil {
		return message{}, err
	}
	return readRest(from, kind[0], kind[:])
}

// readOpening reads the message that opens a connection.
func readOpening(from io.Reader) (message, error) { return readRest(from, opening, nil) }

func readRest(from io.Reader, kind byte, raw []byte) (message, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return message{}, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < 4 || n > longest {
		return message{}, fmt.Errorf("a message of kind %q and %d bytes", kind, n)
	}
	raw = append(raw, length[:]...)
	raw = append(raw, make([]byte, n-4)...)
	_, err := io.ReadFull(from, raw[len(raw)-int(n-4):])
	return message{kind: kind, raw: raw}, err
}

func (m message) asksForTLS() bool { return m.code() == tlsRequest }

func (m message) asksForGSS() bool { return m.code() == gssRequest }

func (m message) code() uint32 {
	if m.kind != opening || len(m.raw) < 8 {
		return 0
	}
	return binary.BigEndian.Uint32(m.raw[4:])
}

// statement is the SQL of Query and Parse.
func (m message) statement() string {
	if m.kind != 'Q' && m.kind != 'P' {
		return ""
	}
	text := m.raw[5:]
	if m.kind == 'P' { // its name comes first
		_, text, _ = bytes.Cut(text, []byte{0})
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return string(text)
}

// spoiled is the message with x in place of a part.
func (m message) spoiled(part string) message {
	return message{kind: m.kind, raw: bytes.Replace(m.raw, []byte(part), bytes.Repeat([]byte{'x'}, len(part)), 1)}
}

// asks says whether an answer ends with this message of the client: Query, Sync, FunctionCall.
func (m message) asks() bool { return m.kind == 'Q' || m.kind == 'S' || m.kind == 'F' }

// endsAnswer says whether this message of the server is the last of an answer: ReadyForQuery.
func (m message) endsAnswer() bool { return m.kind == 'Z' }

// introduces says whether this message of the client belongs to the opening of the connection, with its passwords.
func (m message) introduces() bool { return m.kind == opening || m.kind == 'p' }

// saysGoodbye says whether this is the client's last message: Terminate.
func (m message) saysGoodbye() bool { return m.kind == 'X' }

// query is a Query with some SQL.
func query(sql string) message { return build('Q', append([]byte(sql), 0)) }

// synchronize is a Sync.
var synchronize = build('S', nil)

// build is a message of a kind.
func build(kind byte, body []byte) message {
	raw := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	return message{kind: kind, raw: append(raw, body...)}
}
