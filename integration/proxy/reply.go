package proxy

import "cmp"

// Reply is an error that the server has not said: an ErrorResponse, and what comes after it.
type Reply struct {
	Severity  string // ERROR or FATAL, in the field that is never translated; empty: the reply lacks it, as an old server's or PgBouncer's does
	Localized string // the severity in the field that may be translated; empty: Severity
	Code      string // the SQLSTATE
	Message   string
	Ready     byte // the state of the transaction that ReadyForQuery behind it gives: 'I', 'T' or 'E'; 0: there is none
	Close     bool // the connection is closed behind it, the server's, too
}

// What poolers say when they have lost their server.
var (
	PgBouncerCrashed = Reply{Localized: "FATAL", Code: "08P01", Message: "server conn crashed?", Close: true}
	PgDogLost        = Reply{Severity: "ERROR", Code: "58000", Message: "the server's connection is lost", Ready: 'I'}
	OdysseyLost      = Reply{Severity: "ERROR", Code: "08006", Message: "the remote server's connection is lost", Ready: 'I'}
)

// messages is the reply in the protocol's bytes.
func (r Reply) messages() []byte {
	var body []byte
	field := func(kind byte, value string) {
		if value != "" {
			body = append(append(append(body, kind), value...), 0)
		}
	}
	field('S', cmp.Or(r.Localized, r.Severity))
	field('V', r.Severity)
	field('C', r.Code)
	field('M', r.Message)
	raw := build('E', append(body, 0)).raw
	if r.Ready != 0 {
		raw = append(raw, build('Z', []byte{r.Ready}).raw...)
	}
	return raw
}

// instead is what the client is told in place of an answer that ends with a message.
func (a *Armed) instead(answer []byte, end message) []byte {
	kept := answer[:0]
	if a.partly {
		kept = answer[:len(answer)-len(end.raw)]
	}
	return append(kept, a.Reply.messages()...)
}
