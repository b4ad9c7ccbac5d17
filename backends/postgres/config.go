package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// toPgx are the settings that pgx interprets, by their names in libpq.
var toPgx = []string{
	"host", "port", "user", "password", "dbname",
	"sslmode", "sslrootcert", "sslcert", "sslkey", "require_auth", "channel_binding", "target_session_attrs",
}

// oldestServer is the oldest major version of PostgreSQL that is accepted.
const oldestServer = 14

// pingTimeout is how long a pooled connection that has been idle may take to prove that it is alive.
const pingTimeout = 5 * time.Second

// poolConfig makes pgx's configuration of checked settings.
func poolConfig(s settings, o options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(keywords(s))
	if err != nil {
		// pgx's error quotes the settings. What the URL gives has been checked, so that the cause is elsewhere.
		return nil, wrongURL("together with libpq's environment variables (PGHOST, PGSSLMODE, PGSERVICE, ...) and files it makes no valid configuration")
	}
	config.MinConns, config.MaxConns = int32(o.minSize), int32(o.maxSize)
	config.PingTimeout = pingTimeout

	conn := config.ConnConfig
	conn.ConnectTimeout = o.connectTimeout
	// The statements are prepared and kept here, in statements.go, because BEGIN and SAVEPOINT must travel ahead of
	// the preparation and pgx's own caches cannot let them.
	conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "hare"
	}
	maps.Copy(conn.RuntimeParams, o.session)
	if o.sendsGuards() {
		maps.Copy(conn.RuntimeParams, o.guards)
	}
	// pgx looks at the severity in the server's language; the connection is over whatever the language.
	conn.OnNotice = noticed
	conn.OnPgError = func(_ *pgconn.PgConn, err *pgconn.PgError) bool { return !endsSession(err) }
	return config, nil
}

// keywords writes the settings that pgx interprets as a keyword/value string, whose quoting has no ambiguity.
func keywords(s settings) string {
	var text strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if slices.Contains(toPgx, name) {
			fmt.Fprintf(&text, "%s='%s' ", name, escape.Replace(s[name]))
		}
	}
	return text.String()
}

// checkServer refuses a server that is too old. It costs no round trip: the server says its version on connect.
func checkServer(ctx context.Context, conn *pgconn.PgConn) error {
	if ctx.Value(bareKey) != nil {
		conn.CustomData()[string(bareKey)] = true
	}
	version := conn.ParameterStatus("server_version")
	major, _, _ := strings.Cut(version, ".")
	digits := len(major) - len(strings.TrimLeft(major, "0123456789"))
	if n, err := strconv.Atoi(major[:digits]); err != nil || n < oldestServer {
		return misconfigured("host", "leads to PostgreSQL %q, and hare needs %d or newer", version, oldestServer)
	}
	return nil
}
