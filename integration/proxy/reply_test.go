package proxy_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/integration/proxy"
)

// A made-up answer is what the client gets; the server has done what it was told, or has never heard of it. The connection
// is as the answer says. A transaction that is said to be over is, and one that is said to be open is, too.
func TestMakeUp(t *testing.T) {
	t.Parallel()
	inTransaction := proxy.Reply{Severity: "ERROR", Localized: "FEHLER", Code: "57014", Message: "made up", Ready: 'T'}
	for name, reply := range map[string]proxy.Reply{
		"PgBouncer": proxy.PgBouncerCrashed, "PgDog": proxy.PgDogLost, "Odyssey": proxy.OdysseyLost, "in a transaction": inTransaction,
	} {
		for protocol, mode := range protocols {
			for _, done := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, done %t", name, protocol, done), func(t *testing.T) {
					t.Parallel()
					f := newFixture(t)
					conn := connect(t, f.URL())
					const last = "INSERT INTO note VALUES ('last')"
					armed := f.Arm(proxy.Fault{Statement: "'last'", Do: proxy.MakeUp, Reply: reply, Answer: done})
					exec := func(sql string) error { _, err := conn.Exec(t.Context(), sql, mode); return err }
					if err := errors.Join(exec("BEGIN"), exec("INSERT INTO note VALUES ('first')")); err != nil {
						t.Fatal(err)
					}
					err := exec(last)
					<-armed.Struck()
					<-armed.Passed()
					if told := new(pgconn.PgError); !errors.As(err, &told) || told.Code != reply.Code || told.Message != reply.Message ||
						told.SeverityUnlocalized != reply.Severity || told.Severity == "" {
						t.Fatalf("the client got %#v", err)
					}
					f.finish(conn, reply, done)
				})
			}
		}
	}
}

// finish looks at what the made-up answer inside a transaction has left behind.
func (f *fixture) finish(conn *pgx.Conn, reply proxy.Reply, done bool) {
	f.Helper()
	exec := func(sql string) error { _, err := conn.Exec(f.Context(), sql); return err }
	if reply.Close {
		if err := exec("SELECT 1"); err == nil || !conn.IsClosed() {
			f.Errorf("the connection goes on: %v", err)
		}
		f.poll("the end of the session", func() bool { return f.sessions() == 0 })
		f.wait(0)
		return
	}
	if status := conn.PgConn().TxStatus(); status != reply.Ready {
		f.Errorf("the client takes the transaction for %c", status)
	}
	want := 0
	if reply.Ready == 'T' || done { // the server's transaction is open
		if err := exec("COMMIT"); err != nil {
			f.Error(err)
		}
		if want = 1; done {
			want = 2
		}
	}
	f.wait(want)
	if err := exec("INSERT INTO note VALUES ('after it')"); err != nil {
		f.Error(err)
	}
	f.wait(want + 1)
}

// In a pipeline the made-up answer comes at its end, behind the answers to what was passed on.
func TestMakeUpInAPipeline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := connect(t, f.URL())
	f.Arm(proxy.Fault{Statement: "'second'", Do: proxy.MakeUp, Reply: proxy.PgDogLost})
	pipeline := conn.PgConn().StartPipeline(t.Context())
	pipeline.SendQueryParams("INSERT INTO note VALUES ('first')", nil, nil, nil, nil)
	pipeline.SendQueryParams("INSERT INTO note VALUES ('second')", nil, nil, nil, nil)
	if err := pipeline.Sync(); err != nil {
		t.Fatal(err)
	}
	pipeline.SendQueryParams("INSERT INTO note VALUES ('third')", nil, nil, nil, nil)
	if err := pipeline.Sync(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		result, err := pipeline.GetResults()
		if result == nil && err == nil {
			break
		}
		switch r := result.(type) {
		case *pgconn.ResultReader:
			tag, err := r.Close()
			got = append(got, fmt.Sprint(tag, " ", err))
		case *pgconn.PipelineSync:
			got = append(got, "sync")
		default:
			told := new(pgconn.PgError)
			if !errors.As(err, &told) {
				t.Fatalf("%T, %v", result, err)
			}
			got = append(got, told.Code)
		}
	}
	if err := pipeline.Close(); err != nil {
		t.Error(err)
	}
	if want := "[INSERT 0 1 <nil> 58000 sync INSERT 0 1 <nil> sync]"; fmt.Sprint(got) != want {
		t.Errorf("the client got %v, want %s", got, want)
	}
	f.wait(2)
}

// What is replaced is replaced in every statement, and the client does not notice.
func TestReplace(t *testing.T) {
	t.Parallel()
	for name, mode := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Replace("'one'", "'two'")
			var got string
			if err := connect(t, f.URL()).QueryRow(t.Context(), "SELECT 'one' || 'one'", mode).Scan(&got); err != nil || got != "twotwo" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
