package transactions

import (
	"errors"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/hare"
)

var (
	testID     = strings.Repeat("0f", coordinatorHex/2)
	testUnique = strings.Repeat("0123456789abcdef", 2)
)

func TestSplitGID(t *testing.T) {
	start := xidStart("library", testID)
	for _, test := range []struct {
		name, gid  string
		xid, alias string
	}{
		{"ours", start + testUnique + ":billing", start + testUnique, "billing"},
		{"ours under another alias of the coordinator", xidStart("main", testID) + testUnique + ":b", xidStart("main", testID) + testUnique, "b"},
		{"an alias with colons", start + testUnique + ":a:b:c", start + testUnique, "a:b:c"},
		{"no alias", start + testUnique + ":", "", ""},
		{"no colon", start + testUnique, "", ""},
		{"another coordinator's database", xidStart("library", strings.Repeat("00", coordinatorHex/2)) + testUnique + ":billing", "", ""},
		{"a longer alias that ends like ours", "hare_dtx_library2:" + testID + testUnique + ":billing", "", ""},
		{"upper case", start + strings.ToUpper(testUnique) + ":billing", "", ""},
		{"too short", start + testUnique[1:] + ":billing", "", ""},
		{"too long", start + testUnique + "0:billing", "", ""},
		{"the Python hare's", "hare_dtx_library:" + testUnique + ":billing", "", ""},
		{"a prefix only", "hare_dtx_", "", ""},
		{"something else", "pg_gid_1_2", "", ""},
		{"empty", "", "", ""},
	} {
		xid, alias, ok := splitGID(testID, test.gid)
		if ok != (test.alias != "") {
			t.Errorf("%s: ok = %v", test.name, ok)
		}
		if diff := cmp.Diff([]string{test.xid, test.alias}, []string{xid, alias}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestNewXIDIsSplitAgain(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		xid := xidOf("library", testID, randomHex(uniqueHex))
		if seen[xid] {
			t.Fatalf("%s came twice", xid)
		}
		seen[xid] = true
		if coordinator, ok := splitXID(testID, xid); !ok || coordinator != "library" {
			t.Fatalf("splitXID(%q) = %q, %v", xid, coordinator, ok)
		}
	}
}

// What a GID can carry is told before anything opens.
//
// Field case 19. W7.
func TestCheckNames(t *testing.T) {
	for _, test := range []struct {
		name, coordinator string
		participants      []string
		ok                bool
	}{
		{"plain", "library", []string{"inventory", "billing"}, true},
		{"quotes, percent, underscore, backslash, colon", `li'b"`, []string{`a%_\`, "b:c"}, true},
		{"other scripts", "библиотека", []string{"склад"}, true},
		{"a comma", "library", []string{"a,b"}, false},
		{"a comma in the coordinator", "l,ibrary", []string{"a"}, false},
		{"NUL", "library", []string{"a\x00"}, false},
		{"a line break", "library", []string{"a\nb"}, false},
		{"invalid UTF-8", "library", []string{"a\xff"}, false},
		{"the longest GID", strings.Repeat("c", 69), []string{strings.Repeat("p", 70)}, true},
		{"one byte more", strings.Repeat("c", 69), []string{"p", strings.Repeat("p", 71)}, false},
		{"bytes count, not characters", strings.Repeat("ж", 35), []string{strings.Repeat("p", 70)}, false},
	} {
		err := checkNames(test.coordinator, test.participants)
		var configuration *hare.ConfigurationError
		if test.ok != (err == nil) || err != nil && !errors.As(err, &configuration) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// FuzzGID: what a coordinator makes it finds again, and it finds nothing else.
//
// Field case 19. Field case 39.
func FuzzGID(f *testing.F) {
	f.Add("library", "billing", "hare_dtx_library:x")
	f.Add("a:b", ":"+testID+":", "")
	f.Add(`'\`, "%_", "hare_dtx_:"+testID+":"+testUnique+":")
	f.Fuzz(func(t *testing.T, coordinator, alias, foreign string) {
		if checkNames(coordinator, []string{alias}) != nil || alias == "" || strings.Contains(coordinator, testID) {
			return // validation refuses them, and an id in a name has no chance to be random
		}
		gid := gidOf(xidOf(coordinator, testID, randomHex(uniqueHex)), alias)
		if len(gid) > maxGID {
			t.Fatalf("GID of %d bytes was let through", len(gid))
		}
		xid, found, ok := splitGID(testID, gid)
		if !ok || found != alias || gidOf(xid, alias) != gid {
			t.Fatalf("splitGID(%q) = %q, %q, %v", gid, xid, found, ok)
		}
		if made, ok := splitXID(testID, xid); !ok || made != coordinator {
			t.Fatalf("splitXID(%q) = %q, %v", xid, made, ok)
		}
		if xid, alias, ok := splitGID(testID, foreign); ok && gidOf(xid, alias) != foreign {
			t.Fatalf("splitGID(%q) = %q, %q", foreign, xid, alias)
		}
	})
}

func TestParseXID(t *testing.T) {
	xid := xidOf("library", testID, testUnique)
	for _, test := range []struct {
		name, text        string
		coordinator, says string
	}{
		{"an xid", xid, "library", ""},
		{"an alias with colons", xidOf("a:b", testID, testUnique), "a:b", ""},
		{"a GID", xid + ":billing", "", "the GID of a participant; its xid is " + xid},
		{"a GID of aliases with colons", xidOf("a:b", testID, testUnique) + ":c:d", "", "its xid is " + xidOf("a:b", testID, testUnique)},
		{"a GID without a participant", xid + ":", "", "its xid is " + xid},
		{"no prefix", xid[len(xidPrefix):], "", "no xid"},
		{"cut off", xid[:len(xid)-1], "", "no xid"},
		{"the Python hare's", "hare_dtx_library:" + testUnique, "", "no xid"},
		{"empty", "", "", "no xid"},
	} {
		coordinator, err := ParseXID(test.text)
		if coordinator != test.coordinator || (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %q, %v", test.name, coordinator, err)
		}
	}
}

func TestParseGID(t *testing.T) {
	xid := xidOf("a:b", testID, testUnique)
	for _, test := range []struct{ name, text, xid, participant string }{
		{"a GID", xid + ":billing", xid, "billing"},
		{"a participant with colons", xid + ":c:d", xid, "c:d"},
		{"an xid", xid, "", ""},
		{"no participant", xid + ":", "", ""},
		{"the Python hare's", "hare_dtx_library:" + testUnique + ":billing", "", ""},
		{"somebody else's", "erp_4711", "", ""},
		{"empty", "", "", ""},
	} {
		got, participant, err := ParseGID(test.text)
		if got != test.xid || participant != test.participant || (err == nil) != (test.xid != "") {
			t.Errorf("%s: %q, %q, %v", test.name, got, participant, err)
		}
	}
}

// What the names are made of is the same in every process and on every host: the package does not even know where it runs.
//
// Field case 20.
func TestNamesDependOnNoProcess(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if path, _ := strconv.Unquote(imported.Path.Value); path == "os" || path == "syscall" || path == "net" || strings.HasPrefix(path, "os/") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
	first, second := xidOf("library", testID, randomHex(uniqueHex)), xidOf("library", testID, randomHex(uniqueHex))
	if start := xidStart("library", testID); !strings.HasPrefix(first, start) || !strings.HasPrefix(second, start) || first == second {
		t.Errorf("%s and %s", first, second)
	}
}
