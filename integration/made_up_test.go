package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/proxy"
	"github.com/hare-go/hare/transactions"
)

// madeUp are answers of a pooler that has lost its server: one of each SQLSTATE class that says nothing of the statement, as an
// error that ends the connection and as one that does not, with each state that the connection may claim to be in.
func madeUp() []proxy.Reply {
	list := []proxy.Reply{proxy.PgBouncerCrashed, proxy.PgDogLost, proxy.OdysseyLost}
	for i, code := range []string{"08000", "08003", "08P01", "57000", "57014", "57P01", "58030", "XX000", "XX001"} {
		ready := []byte{'I', 'T', 'E', 0}[i%4]
		list = append(list, proxy.Reply{Severity: "ERROR", Code: code, Message: "made up", Ready: ready, Close: ready == 0})
	}
	for _, code := range []string{"23505", "40001", "53200"} { // a refusal would be an error
		list = append(list, proxy.Reply{Severity: "FATAL", Code: code, Message: "made up", Close: true})
	}
	return append(list,
		proxy.Reply{Severity: "FATAL", Code: "57P01", Message: "made up", Close: true},
		proxy.Reply{Severity: "FATAL", Code: "58000", Message: "made up", Ready: 'I'},
		proxy.Reply{Severity: "ERROR", Localized: "FEHLER", Code: "58000", Message: "erfunden", Ready: 'I'})
}

// A pooler that has lost its server answers a message of the protocol itself, whether the message came through or not. The
// call finds out what happened, and tells the truth.
//
// Fault D5.
func TestMadeUpAnswers(t *testing.T) {
	t.Parallel()
	for _, m := range protocol {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			network := f.through(m.alias)[m.alias]
			if err := f.distributed(nothing); err != nil { // first use
				t.Fatal(err)
			}
			if m.refused {
				f.atCommit("b", "IF NEW.text NOT LIKE 'after %' THEN RAISE EXCEPTION 'no'; END IF;")
			}
			for _, reply := range madeUp() {
				for _, came := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s %c, came through %t", reply.Severity, reply.Code, reply.Ready, came), func(t *testing.T) {
						fault := proxy.Fault{Statement: m.statement, Do: proxy.MakeUp, Reply: reply, Answer: came}
						f.in(t).strikeInTime(m, network, fault)
					})
				}
			}
		})
	}
}

// The same with the COMMIT of a transaction on one database: nobody can ask what became of it, so its end is unknown.
//
// Fault D5.
func TestMadeUpAnswerToAPlainCommit(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "&max_size=1")
	network := f.through("a")["a"]
	kept := int64(0)
	for _, reply := range madeUp() {
		for _, came := range []bool{false, true} {
			network.Arm(proxy.Fault{Statement: "COMMIT", Do: proxy.MakeUp, Reply: reply, Answer: came})
			err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
				return Notes.UsingAlias("a").Create(ctx, &Note{Text: "made up"})
			}, transactions.Using("a"))
			as[*transactions.CommitUnknownError](t, err)
			wantOutcome(t, err, transactions.Ambiguous)
			if came {
				kept++
			}
			network.Heal()
			f.eventually("the server knows", func() bool { return f.counts()[1] == kept })
		}
	}
}

// An error of any other class is a refusal, and is believed at once: the call says that it is rolled back, for that reason, and asks
// nobody what became of it.
//
// Fault D5.
func TestRefusalIsBelieved(t *testing.T) {
	t.Parallel()
	for alias, statement := range map[string]string{"a": "PREPARE TRANSACTION", "c": decisionSQL} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			f := newTrio(t, "&max_size=1")
			network := f.through(alias)[alias]
			if err := f.distributed(nothing); err != nil { // first use
				t.Fatal(err)
			}
			for _, code := range []string{
				"0A000", "21000", "22003", "23514", "25006", "25P02", "26000", "2BP01", "2D000", "34000", "40001", "40P01", "42501", "42P01",
				"44000", "53200", "54000", "55P03", "F0000", "HV000", "P0001", "72000",
			} {
				network.Arm(proxy.Fault{Statement: statement, Do: proxy.MakeUp, Reply: proxy.Reply{Severity: "ERROR", Code: code, Message: "no", Ready: 'E'}})
				f.plan.Reset()
				err := f.distributed(writeAll)
				as[*transactions.AbortError](t, err)
				if e := as[*hare.DatabaseError](t, err); e.SQLState != code || e.Alias != alias || !e.NotDone {
					t.Errorf("%s: got %v", code, err)
				}
				for _, e := range f.plan.Events() {
					if strings.Contains(e.SQL, "'abort'") || strings.Contains(e.SQL, "pg_terminate_backend") {
						t.Errorf("%s: it was not believed: %s", code, e.SQL)
					}
				}
				f.wantNothingLeft()
			}
		})
	}
}
