package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare/backend"
)

// The direct address leads past a pooler. Connections outside the pool, on which recovery and leases stand, are dialled
// there: no pool of the pooler's can starve them, and they keep their session.

func transactionPooling(o *options, value string) string {
	if value != "true" && value != "false" {
		return "is neither true nor false"
	}
	pooled := value == "true"
	o.pooled = &pooled
	return ""
}

func directHost(o *options, value string) string {
	o.directHost = value
	return hosts(o, value)
}

func directPort(o *options, value string) string {
	o.directPort = value
	return ports(o, value)
}

// togetherDirect checks what the direct address needs.
func togetherDirect(s settings, o *options) error {
	for _, name := range []string{"direct_host", "direct_port"} {
		if s[name] != "" && (o.pooled == nil || !*o.pooled) {
			return &backend.OptionError{Option: name, Reason: "is the way past a pooler in transaction mode: say transaction_pooling=true as well, or leave it out"}
		}
	}
	if s["direct_port"] != "" && s["direct_host"] == "" {
		return &backend.OptionError{Option: "direct_port", Reason: "needs direct_host"}
	}
	if n := strings.Count(o.directPort, ","); n > 0 && n != strings.Count(o.directHost, ",") {
		return &backend.OptionError{Option: "direct_port", Reason: "has another number of elements than direct_host: give one port for all hosts, or one for each"}
	}
	return nil
}

// directConfig is the configuration of connections to the direct address, or nil without one. A server takes every
// start-up parameter.
func directConfig(s settings, o options) (*pgx.ConnConfig, error) {
	if o.directHost == "" {
		return nil, nil
	}
	past := maps.Clone(s)
	past["host"], past["port"] = o.directHost, o.directPort
	config, err := poolConfig(past, o)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.ConnConfig.RuntimeParams, o.guards)
	return config.ConnConfig, nil
}

// directAddress is the direct address for people.
func (o options) directAddress() string {
	if o.directHost == "" {
		return ""
	}
	if strings.Contains(o.directHost, ",") {
		return o.directHost + ":" + o.directPort
	}
	return net.JoinHostPort(o.directHost, o.directPort)
}

// identitySQL is a column that no two databases have in common, except with a server's own standby, which differs in the
// last part.
const identitySQL = `(SELECT pg_catalog.concat(system_identifier, '/', d.oid, '/', pg_catalog.pg_is_in_recovery())
	FROM pg_catalog.pg_control_system(), pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())`

// compareTime is how long a connection to the direct address waits for one through the pooler to be compared with.
const compareTime = 2 * time.Second

// dialDirect opens a connection to the direct address, and makes sure once that it leads to the same database as the
// pool. Where the pooler is full or away there is nothing to compare with: what the direct address is for is just that
// case, so the connection is opened all the same, and the next one tries again. Recovery and leases recognise a database
// that is not theirs by themselves.
func (d *database) dialDirect(ctx context.Context) (*pgx.Conn, error) {
	if !d.directKnown.Load() {
		if err := d.checkDirect(ctx); err != nil {
			return nil, err
		}
	}
	c, err := d.connectWith(ctx, d.direct)
	return c, d.atDirect(ctx, err)
}

// atDirect says that it was the direct address that gave no connection: through the pooler the same login may work.
func (d *database) atDirect(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	e := *connectFailure(ctx, err)
	at := fmt.Sprintf("at the direct address %s (direct_host): ", d.options.directAddress())
	var option *backend.OptionError
	if errors.As(&e, &option) {
		e.Err = errors.Join(&backend.OptionError{Option: option.Option, Reason: at + option.Reason}, e.Err)
	}
	if e.Message == "" {
		e.Message = err.Error()
	}
	e.Message = at + e.Message
	return &e
}

func (d *database) checkDirect(ctx context.Context) error {
	w := d.way.Load()
	if w == nil {
		inTime, cancel := context.WithTimeout(ctx, compareTime)
		defer cancel()
		c, err := d.Acquire(inTime)
		var answer *backend.Error
		switch {
		case errors.As(err, &answer) && answer.Class == backend.ClassLogin:
			return fmt.Errorf("the way through the pooler, which the direct address is compared with: %w", err)
		case err != nil && ctx.Err() == nil:
			slog.Default().WarnContext(ctx, "nothing can be had through the pooler to compare the direct address with; it is used all the same",
				"alias", d.alias, "direct", d.options.directAddress(), "error", err)
			return nil
		case err != nil:
			return err
		}
		w = d.way.Load()
		c.Release()
		if w == nil { // a pooler has come between meanwhile, so that somebody looks again
			return nil
		}
	}
	elsewhere, _, err := d.directElsewhere(ctx, w)
	if err != nil {
		return err
	}
	if elsewhere {
		return misconfigured("direct_host", "leads to another database than the address itself, or to a standby of its server: %s must be the address of the server behind the pooler", d.options.directAddress())
	}
	d.directKnown.Store(true)
	return nil
}

// directElsewhere compares the database at the direct address with the one at the end of the way.
func (d *database) directElsewhere(ctx context.Context, w *way) (elsewhere bool, protected *backend.Transport, err error) {
	c, err := d.connectWith(ctx, d.direct)
	if err != nil {
		return false, nil, d.atDirect(ctx, err)
	}
	defer closeAtOnce(c)
	protected = &wireOf(c.PgConn()).way
	answer, err := simple(ctx, c.PgConn(), "SELECT "+identitySQL)
	if err != nil {
		return false, protected, d.atDirect(ctx, err)
	}
	return w == nil || len(answer.Row) == 0 || answer.Row[0] != w.identity, protected, nil
}
