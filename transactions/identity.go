package transactions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
)

// identity is what a database is, whatever alias leads to it: the cluster's system identifier, which initdb makes, and
// the database's OID in it. A copy made with CREATE DATABASE ... TEMPLATE or by dump and restore is another database.
type identity struct {
	System string `json:"system"`
	OID    string `json:"oid"`
	Name   string `json:"database"`
}

func (i identity) same(other identity) bool { return i.System == other.System && i.OID == other.OID }

func (i identity) String() string {
	return fmt.Sprintf("database %q (OID %s) of the cluster with system identifier %s", i.Name, i.OID, i.System)
}

// server is what hare has to know of a database before it takes part: facts asked of the server itself.
type server struct {
	identity
	slots       int    // max_prepared_transactions
	standby     bool   // pg_is_in_recovery()
	version     int    // server_version_num
	weak        bool   // the session does not wait until its synchronous standby has what it commits
	coordinator string // the id that the database gave itself as a coordinator; empty when it is only a participant
}

// thisDatabase and isThisDatabase, FROM and WHERE, are the row that says what database answers.
const (
	thisDatabase   = `pg_catalog.pg_control_system() c, pg_catalog.pg_database d`
	isThisDatabase = `d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()`
)

const identitySQL = `SELECT c.system_identifier, d.oid, d.datname, pg_catalog.current_setting('max_prepared_transactions'), pg_catalog.pg_is_in_recovery(),
	pg_catalog.current_setting('server_version_num'), ` + leavesStandby + ` FROM ` + thisDatabase + ` WHERE ` + isThisDatabase

// ask learns what the database behind a connection is. The connection must be idle.
func ask(ctx context.Context, alias string, conn backend.Conn) (server, error) {
	answer, err := conn.Control(ctx, identitySQL)
	if backend.SQLState(err) == "42883" { // undefined_function
		return server{}, noPostgreSQL(ctx, alias, conn, err)
	}
	if err != nil {
		return server{}, hare.ErrorFrom(alias, identitySQL, err)
	}
	if len(answer.Row) != 7 {
		return server{}, &hare.ConfigurationError{Alias: alias, Reason: "the server does not say what it is (pg_control_system)"}
	}
	slots, err := strconv.Atoi(answer.Row[3])
	if err != nil {
		return server{}, &hare.ConfigurationError{Alias: alias, Reason: "the server's max_prepared_transactions is not a number", Err: err}
	}
	version, err := strconv.Atoi(answer.Row[5])
	if err != nil {
		return server{}, &hare.ConfigurationError{Alias: alias, Reason: "the server's server_version_num is not a number", Err: err}
	}
	return server{
		identity: identity{System: answer.Row[0], OID: answer.Row[1], Name: answer.Row[2]},
		slots:    slots,
		standby:  answer.Row[4] == "t",
		version:  version,
		weak:     answer.Row[6] == "t",
	}, nil
}

// noPostgreSQL is the refusal of a server that speaks PostgreSQL's protocol and is something else.
func noPostgreSQL(ctx context.Context, alias string, conn backend.Conn, cause error) error {
	product := "an unknown product"
	if answer, err := conn.Control(ctx, "SELECT pg_catalog.version()"); err == nil && len(answer.Row) == 1 {
		product = answer.Row[0]
	}
	return &hare.ConfigurationError{Alias: alias, Err: cause, Reason: fmt.Sprintf(
		"the server calls itself %q and cannot say what database it is (pg_control_system): only PostgreSQL can take part in a distributed transaction", product)}
}

// known remembers what was learnt of each database, so that only the first call over a connection asks. A server that
// refuses is not remembered: its administrator may be about to mend it.
var known sync.Map // backend.Database -> *server

func remember(db backend.Database, s *server) {
	known.Store(db, s)
	session.BeforeClose(db, "identity", func() { forget(db) })
}

func forget(db backend.Database) { known.Delete(db) }

// meet makes sure that every database can play its part, before anything runs in one: each is a primary server, each
// participant has prepared transactions, the coordinator has its table, and no two are the same database.
func (c *call) meet(ctx context.Context) error {
	errs := c.each(func(b *branch) error {
		if s, ok := known.Load(b.db); ok && s.(*server).playedPart(b != c.coordinator) {
			b.server = s.(*server)
			return nil
		}
		s, err := ask(ctx, b.alias, b.tx.Conn())
		if err == nil {
			err = s.fit(b.alias, b != c.coordinator)
		}
		if err == nil && b == c.coordinator {
			s.coordinator, err = coordinatorID(ctx, b.alias, b.db, b.tx.Conn(), s.identity)
		}
		if err != nil {
			return err
		}
		c.warnOutdated(ctx, b.alias, s)
		b.server = &s
		remember(b.db, &s)
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.distinct()
}

// playedPart reports whether what was asked of the server says that it can play the part: each part needs something else.
func (s *server) playedPart(participant bool) bool {
	if participant {
		return s.slots > 0
	}
	return s.coordinator != ""
}

// fit refuses a server that cannot play its part.
func (s server) fit(alias string, participant bool) error {
	if s.standby {
		return &hare.ConfigurationError{Alias: alias, Reason: fmt.Sprintf("%s is a standby and cannot write: connect to the primary", s.identity)}
	}
	if participant && s.slots == 0 {
		return noSlots(alias, nil)
	}
	return nil
}

// noSlots is the refusal of a server that was set up without prepared transactions.
func noSlots(alias string, cause error) error {
	return &hare.ConfigurationError{Alias: alias, Option: "max_prepared_transactions", Err: cause, Reason: "it is 0 on this server, so it cannot take part in a distributed transaction: " +
		"set it to at least the number of connections that may prepare at once, and restart the server (PostgreSQL documentation, Resource Consumption)"}
}

// distinct refuses two aliases that lead to one database: its two transactions would wait for each other's locks.
func (c *call) distinct() error {
	for i, b := range c.branches {
		for _, other := range c.branches[:i] {
			if b.server.same(other.server.identity) {
				return &hare.QueryError{Reason: fmt.Sprintf("%q and %q are the same database, %s: name it once", other.alias, b.alias, b.server.identity)}
			}
		}
	}
	return nil
}
