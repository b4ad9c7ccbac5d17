package leases

import (
	"context"
	"fmt"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// home is the database that a process's leases are in, as the first one that it asked for found it. A connection may lead
// elsewhere later: a pooler's database can be led to another cluster without any client's noticing, and a copy there has the
// rows, too. So each message proves where it is answered, in its own transaction, before it reads or writes anything.
type home struct {
	system, oid string // the cluster's system identifier, which a standby shares, and the database's OID
}

const homeSQL = `SELECT c.system_identifier, d.oid FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()`

// elsewhereState is the SQLSTATE of proveSQL elsewhere: undefined_object, which nothing else in a message gives.
const elsewhereState = "42704"

// proveSQL gives no row, and elsewhere it fails: by asking for a setting that does not exist, whose name is not known before
// it runs, because the planner tries constants.
func (h home) proveSQL() string {
	return fmt.Sprintf(`SELECT FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
AND CASE WHEN c.system_identifier OPERATOR(pg_catalog.=) %s::pg_catalog.int8 AND d.oid OPERATOR(pg_catalog.=) %s::pg_catalog.oid THEN false
ELSE pg_catalog.current_setting('hare.elsewhere_' OPERATOR(pg_catalog.||) d.oid::pg_catalog.text) IS NULL END`, backend.Literal(h.system), backend.Literal(h.oid))
}

// settle finds out where the leases are, if no message has before.
func (w *wire) settle(ctx context.Context, g guards) error {
	if w.where() != (home{}) {
		return nil
	}
	row, err := w.send(ctx, g, homeSQL)
	if err != nil {
		return err
	}
	if len(row) != 2 {
		return &hare.ConfigurationError{Alias: w.alias, Reason: "the server does not say what it is (pg_control_system)"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.home == (home{}) {
		w.home = home{system: row[0], oid: row[1]}
	}
	return nil
}

func (w *wire) where() home {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.home
}
