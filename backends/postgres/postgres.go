// Package postgres is hare's backend for PostgreSQL 14 and newer, built on pgx. A program imports it for its effect:
//
//	import _ "github.com/hare-go/hare/backends/postgres"
//
// It serves the URL schemes postgres and postgresql. A URL is libpq's, with several hosts if need be, which are tried in
// order; what it leaves out comes from libpq's environment variables (PGHOST, PGUSER, PGPASSWORD, ...) and password
// file, except the database, which the URL must name:
//
//	postgres://user:password@host:5432/database?max_size=32&statement_timeout=15s&sslmode=verify-full
//
// The options, all of them checked before anything is dialled:
//
//	min_size                connections kept open, 0 to max_size. Default 0: the first calls after a quiet time pay for
//	                        dialling, and an idle program holds no server process
//	max_size                most connections of the pool, 1 to 10000. Default 16
//	pool_acquire_timeout    longest wait for a free connection: seconds, or a duration such as 15s. Default 30s
//	connect_timeout         longest time to dial one host and log in, likewise. Default 10s
//	statement_cache_size    statements that each connection keeps prepared, or, behind a pooler in transaction mode, whose
//	                        descriptions it keeps, 0 to 1000000. Default 512; with 0 each call costs a second round trip
//	statement_timeout       the server's time-outs for a session: milliseconds, or a duration such as 15s or 250ms;
//	lock_timeout            0 is none. Default: as the server, role or database is configured. Where the server, asked at the
//	idle_in_transaction_session_timeout
//	                        first use, in each connection's first message and behind a pooler once a minute, has another
//	                        value, every use is refused until it has not
//	application_name        how the server's views and log name the sessions. Default PGAPPNAME, else "hare"
//	search_path             schemas in which unqualified names are looked up; the server is asked as for the time-outs
//	synchronous_commit      on, remote_apply, remote_write, local or off; the server is asked likewise
//	transaction_pooling     true: a pooler that gives each transaction any session is on the way, and need not be found out;
//	                        the time-outs and search_path are then not sent but only asked for. false: it must not be.
//	                        Default: found out at the first use, which costs a round trip, and a second connection behind a pooler
//	direct_host             the server's address past such a pooler, for the connections outside the pool, which recovery and
//	direct_port             leases use; only with transaction_pooling=true. The port's default is 5432. Default: they go
//	                        through the pooler, and wait when it is full
//	tables_owner            roles, with commas, that may own hare's own tables besides this role, roles that it is a member of,
//	                        superusers and the database's owner. Default: no other
//	sslmode                 disable, allow, prefer, require, verify-ca or verify-full. Default prefer, which accepts
//	                        an unencrypted connection: use verify-full over a network
//	sslrootcert             file of the authorities that may have signed the server's certificate, or "system"
//	require_auth            what the server may ask for as a proof: password, md5, scram-sha-256, gss, sspi, oauth, none, several with
//	                        commas; or what it may not, each with an exclamation mark. Default PGREQUIREAUTH, else everything,
//	                        except the password in clear text where others could read it: the option must name that
//	channel_binding         disable, prefer or require, for scram-sha-256 over TLS. Default PGCHANNELBINDING, else prefer
//	sslcert, sslkey         files of the client's certificate and its key
//	target_session_attrs    which of several hosts will do: any, read-write, read-only, primary, standby or
//	                        prefer-standby. Default any
//	host, port, user, password, dbname
//	                        in place of the same part of the address
//
// Sessions always have the time zone UTC. Statements are prepared once on each connection and then take one round trip.
// Behind a pooler in transaction mode they are described once and then parsed with each run, in one round trip as well.
//
// Besides the canonical values, arguments can be of any type that pgx encodes. Values of a query that no model describes
// are bool, int64, float64, string, []byte, time.Time (timestamptz; timestamp and date as their instant in UTC),
// backend.UUID, backend.Decimal, backend.JSON and backend.Array; every other type (interval, time, inet, ranges,
// enumerations, ...) comes as the text that PostgreSQL prints.
package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/features"
	"github.com/hare-go/hare/hare/backend"
)

func init() { backend.Register(driver{}, "postgres", "postgresql") }

type driver struct{}

// Features is what PostgreSQL can do.
func (driver) Features() features.Features { return supported }

// Open checks the URL and returns the database. Files of certificates are read, and nothing is dialled.
func (driver) Open(cfg backend.Config) (backend.Database, error) {
	s, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	o, err := checkSettings(s)
	if err != nil {
		return nil, err
	}
	config, err := poolConfig(s, o)
	if err != nil {
		return nil, err
	}
	direct, err := directConfig(s, o)
	if err != nil {
		return nil, err
	}
	d := &database{
		alias: cfg.Alias, options: o, config: config, direct: direct, question: question(o),
		inUse: make(chan struct{}, o.maxSize), looking: make(chan struct{}, 1), opened: time.Now(),
	}
	config.BeforeConnect = func(ctx context.Context, config *pgx.ConnConfig) error {
		if d.bareFor(ctx) {
			o.dropGuards(config)
		}
		d.wired(config)
		return nil
	}
	return d, nil
}
