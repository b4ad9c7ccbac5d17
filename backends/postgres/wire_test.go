package postgres

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgproto3"
)

// encoded is what a server sends.
func encoded(t *testing.T, messages ...pgproto3.BackendMessage) (all []byte) {
	t.Helper()
	for _, m := range messages {
		next, err := m.Encode(all)
		if err != nil {
			t.Fatal(err)
		}
		all = next
	}
	return all
}

// TestWire: pgx gets its own answers whole, whatever pieces they come in, and of the question's only what may come at any
// time; an error that ends the connection is pgx's.
func TestWire(t *testing.T) {
	notice := &pgproto3.NoticeResponse{Severity: "NOTICE", Code: "00000", Message: "hello"}
	columns := &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("x")}}}
	row := func(values ...string) *pgproto3.DataRow {
		r := &pgproto3.DataRow{}
		for _, v := range values {
			r.Values = append(r.Values, []byte(v))
		}
		return r
	}
	done, ready := &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, &pgproto3.ReadyForQuery{TxStatus: 'I'}
	refusal := func(severity string) *pgproto3.ErrorResponse {
		return &pgproto3.ErrorResponse{Severity: "FEHLER", SeverityUnlocalized: severity, Code: "57014", Message: "no"}
	}
	own := []pgproto3.BackendMessage{columns, row("mine"), done, ready}
	for _, c := range []struct {
		name           string
		answer, passed []pgproto3.BackendMessage
		known          bool
		missing        string
	}{
		{"in force", []pgproto3.BackendMessage{columns, notice, row("7", "app", "", "4321"), done, ready}, []pgproto3.BackendMessage{notice}, true, ""},
		{"missing", []pgproto3.BackendMessage{columns, row("7", "app", "", "0"), done, ready}, nil, true, "lock_timeout"},
		{"an error", []pgproto3.BackendMessage{refusal("ERROR"), ready}, nil, false, ""},
		{"another answer", []pgproto3.BackendMessage{columns, row("7"), done, ready}, nil, false, ""},
		{"no row", []pgproto3.BackendMessage{columns, done, ready}, nil, false, ""},
		{"the end", []pgproto3.BackendMessage{refusal("FATAL")}, []pgproto3.BackendMessage{refusal("FATAL")}, false, ""},
	} {
		whole := encoded(t, append(c.answer, own...)...)
		for _, in := range []io.Reader{bytes.NewReader(whole), iotest.OneByteReader(bytes.NewReader(whole)), iotest.DataErrReader(bytes.NewReader(whole))} {
			var out bytes.Buffer
			w := &wire{in: in, out: &out, guarded: guarded{database: &database{options: options{guards: map[string]string{"lock_timeout": "4321"}}}}}
			w.send("SELECT 1")
			if n, err := w.Write([]byte("Q-mine")); n != 6 || err != nil {
				t.Errorf("%s: %d bytes written, %v", c.name, n, err)
			}
			question := encodedQuery(t, "SELECT 1")
			if diff := cmp.Diff(string(question)+"Q-mine", out.String()); diff != "" {
				t.Errorf("%s: what was sent (-want +got)\n%s", c.name, diff)
			}
			got, err := io.ReadAll(w)
			if diff := cmp.Diff(encoded(t, append(c.passed, own...)...), got); diff != "" || err != nil {
				t.Errorf("%s: what came through (-want +got), %v\n%s", c.name, err, diff)
			}
			missing := ""
			if w.missing != nil {
				missing = w.database.missing.Load().Name
			}
			if w.known != c.known || missing != c.missing {
				t.Errorf("%s: known %t, missing %q", c.name, w.known, missing)
			}
		}
	}
}

func encodedQuery(t *testing.T, sql string) []byte {
	t.Helper()
	message, err := (&pgproto3.Query{String: sql}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// TestWireOfNoServer: what cannot be a message of a server's is refused and not waited for.
func TestWireOfNoServer(t *testing.T) {
	for _, sent := range []string{"HTTP/1.1 400 Bad Request\r\n", "R\x00\x00\x00\x03xxxx", "R\xff\xff\xff\xffxxxx"} {
		w := &wire{in: bytes.NewReader([]byte(sent)), reader: (&login{}).examine}
		if got, err := io.ReadAll(w); err == nil || len(got) != 0 {
			t.Errorf("%q: %q came through", sent, got)
		}
	}
}

// TestGoodbyeAloneIsSent: a connection that is closed asks nothing any more.
func TestGoodbyeAloneIsSent(t *testing.T) {
	var out bytes.Buffer
	w := &wire{out: &out}
	w.send("SELECT 1")
	if _, err := w.Write([]byte("X\x00\x00\x00\x04")); err != nil || out.Len() != 5 {
		t.Errorf("%q was sent: %v", out.String(), err)
	}
}
