package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/transactions"
)

// schemaLock is the key of the lock that CreateTables takes.
const schemaLock = "1751216741"

// Somebody without any right holds the lock of schema changes: CreateTables does not wait for ever, by whichever bound there is,
// and its error says who it is. The bound is hare's own business: it does not outlive the lock.
//
// Fault S4.
func TestWaitForTheSchemaLockEnds(t *testing.T) {
	t.Parallel()
	f := newTrio(t, "")
	role, roleURL := f.stranger("c")
	holder := session(t, roleURL, "psql", "SELECT pg_advisory_lock("+schemaLock+")")
	f.urls["short"] = servers.Direct(f.urls["c"]) + "&lock_timeout=300" // which a pooler would not pass on
	f.reconnect()
	create := func(ctx context.Context, alias string) error { return hare.CreateTables(ctx, f.client(alias), Note{}) }
	for name, call := range map[string]func() error{
		"no bound":                         func() error { return create(f.ctx, "c") },
		"a lock_timeout of the connection": func() error { return create(f.ctx, "short") },
		"a lock_timeout of the transaction": func() error {
			return transactions.Atomic(f.ctx, func(ctx context.Context) error { return create(ctx, "c") }, transactions.Using("c"), transactions.LockTimeout(300*time.Millisecond))
		},
	} {
		start := time.Now()
		err := call()
		if err == nil {
			t.Fatalf("%s: it did not wait", name)
		}
		wantQuick(t, start, 60*time.Second)
		for _, part := range []string{fmt.Sprintf("server process %d", holder.PgConn().PID()), role, "psql"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error does not say %q: %v", name, part, err)
			}
		}
		var refused *hare.DatabaseError
		if refused = as[*hare.DatabaseError](t, err); refused.SQLState != "55P03" {
			t.Errorf("%s: %v", name, refused)
		}
	}
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	err := transactions.Atomic(f.ctx, func(ctx context.Context) error {
		if err := create(ctx, "c"); err != nil {
			return err
		}
		rows, err := f.client("c").Query(ctx, "SELECT current_setting('lock_timeout')")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var timeout string
			if err := rows.Scan(&timeout); err != nil || timeout != "0" {
				t.Errorf("lock_timeout is %q afterwards, want 0: %v", timeout, err)
			}
		}
		return rows.Err()
	}, transactions.Using("c"))
	if err != nil {
		t.Fatal(err)
	}
}
