package leases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/integration/servers"
)

// TestManyTermsInOneMessage: the renewal of thousands of terms keeps within the time-outs that one has.
func TestManyTermsInOneMessage(t *testing.T) {
	const many = 4000
	conn, err := pgx.Connect(t.Context(), servers.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	exec := func(statements ...string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), strings.Join(statements, ";"), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	exec(createTable...)
	exec(`INSERT INTO ` + table + ` SELECT 'job ' || i, 'holder', i, now(), now(), now() + '1h' FROM generate_series(1, ` + fmt.Sprint(many) + `) AS i`)
	terms := make([]*Term, many)
	for i := range terms {
		terms[i] = &Term{token: int64(i + 1), lease: &Lease{name: fmt.Sprint("job ", i+1), holder: "holder", opts: Options{}.filled()}}
	}
	exec(append(append(Options{}.filled().guards().begin("test"), renewSQL(terms, false)...), "COMMIT")...)
	var renewed int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` WHERE expires_at < now() + '1m'`).Scan(&renewed); err != nil {
		t.Fatal(err)
	}
	if renewed != many {
		t.Errorf("%d terms were renewed, want %d", renewed, many)
	}
}
