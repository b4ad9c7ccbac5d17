package rules

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is which packages of this module and of others each package may import outside its tests; the standard
// library is open to all. A key may be a pattern of path.Match. An entry of another module covers its packages.
var allowed = map[string][]string{
	"features":           {},
	"query":              {"features"},
	"hare/backend":       {"features"},
	"internal/schema":    {"query", "features", "hare/backend"},
	"internal/session":   {"features", "hare/backend"},
	"internal/compile":   {"query", "features", "hare/backend", "internal/schema", squirrel},
	"internal/doctor":    {"internal/plaintext", "hare", "hare/backend", "transactions", "internal/releases", "internal/serverview", "internal/tables"},
	"internal/releases":  {},
	"internal/plaintext": {},
	"internal/rules":     {},

	"internal/serverview": {},
	"internal/tables":     {"hare", "hare/backend"},

	"internal/surface": {}, // tests
	"hare": {"internal/plaintext", "query", "features", "hare/backend", "internal/schema", "internal/compile", "internal/session",
		"go.yaml.in/yaml/v3"},
	"transactions": {"internal/plaintext", "hare", "features", "hare/backend", "internal/session", "internal/releases", "internal/serverview", "internal/tables",
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace"},

	"leases": {"internal/plaintext", "hare", "features", "hare/backend", "internal/session", "internal/serverview", "internal/tables"},

	"backends/postgres": {"features", "hare/backend", "internal/serverview", pgx,
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric"},
	"backends/sqlite":      {"features", "hare/backend", "github.com/ncruces/go-sqlite3"},
	"backends/clickhouse":  {"features", "hare/backend", "github.com/ClickHouse/clickhouse-go/v2", "github.com/ClickHouse/ch-go"},
	"backends/backendtest": {"features", "hare", "hare/backend", "query", "transactions", "github.com/google/go-cmp"},

	"cmd/hare":   {"internal/plaintext", "features", "hare", "leases", "transactions", "internal/doctor", "backends/postgres", "backends/sqlite", "backends/clickhouse", "golang.org/x/term"},
	"examples/*": {"hare", "leases", "query", "transactions", "backends/postgres", "backends/sqlite", "backends/clickhouse"},

	"docs/protocol": {},
	"examples":      {}, // their test

	"integration":             {}, // tests
	"integration/storm":       {}, // tests
	"integration/servers":     {pgx, "github.com/ory/dockertest/v3"},
	"integration/withservers": {"integration/servers"},
	"integration/faults":      {"features", "hare/backend"},
	"integration/proxy":       {},
	"integration/demo":        {"integration/proxy", pgx},
	"integration/chaos": {"hare", "query", "transactions", "backends/postgres", "integration/proxy", "integration/servers",
		pgx},
}

const (
	pgx      = "github.com/jackc/pgx/v5"
	squirrel = "github.com/Masterminds/squirrel"
)

// imports finds imports that the table does not allow. In tests everything may be imported, except squirrel, which has
// one user.
func imports(f *file) (found []string) {
	for _, spec := range f.syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return []string{f.at(spec, "%v", err)}
		}
		key, _ := entryOf(f.folder())
		first, _, _ := strings.Cut(name, "/")
		name = strings.TrimPrefix(name, module+"/")
		switch {
		case !strings.Contains(first, "."): // the standard library
		case f.isTest():
			if covers(squirrel, name) && f.folder() != "internal/compile" {
				found = append(found, f.at(spec, "only internal/compile imports squirrel"))
			}
		case !slices.ContainsFunc(allowed[key], func(entry string) bool { return covers(entry, name) }):
			found = append(found, f.at(spec, "%s may not import %s", f.folder(), name))
		}
	}
	return found
}

// entryOf is the key of the table for a folder.
func entryOf(folder string) (string, bool) {
	for pattern := range allowed {
		if matched, _ := path.Match(pattern, folder); matched { // the patterns are good
			return pattern, true
		}
	}
	return "", false
}

// covers says whether an entry of the table allows a package: a package of this module itself, another module whole.
func covers(entry, name string) bool {
	return name == entry || strings.Contains(entry, ".") && strings.HasPrefix(name, entry+"/")
}

// TestEachPackageIsInTheTable keeps a package that imports nothing yet from being forgotten, and the table from keeping
// one that is gone.
func TestEachPackageIsInTheTable(t *testing.T) {
	unused := maps.Clone(allowed)
	for _, f := range repository(t) {
		if f.isTest() {
			continue
		}
		pattern, known := entryOf(f.folder())
		if !known {
			t.Errorf("%s is not in the table of allowed imports", f.folder())
		}
		delete(unused, pattern)
	}
	for pattern := range unused {
		t.Errorf("the table of allowed imports has %s, and there is no such package", pattern)
	}
}
