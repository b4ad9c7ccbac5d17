package main

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/transactions"
)

var at = time.Date(2026, 7, 30, 5, 12, 45, 678_912_345, time.FixedZone("", 2*3600))

const stuckJSON = `{
  "version": 1,
  "at": "2026-07-30T03:12:45.678Z",
  "coordinator": "library",
  "coordinator_id": "b88b0a6608fa9140",
  "finish": false,
  "clean": false,
  "error": "",
  "entries": [
    {
      "xid": "hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7",
      "alias": "billing",
      "gid": "hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7:billing",
      "owner": "hare",
      "age_seconds": 4500,
      "xact_age": 12,
      "tables": [
        "account",
        "deposit"
      ],
      "live": false,
      "action": "commit",
      "reason": "the decision to commit is durable",
      "state": "needed",
      "error": ""
    }
  ],
  "unreachable": [
    {
      "alias": "inventory",
      "error": "connection \"inventory\": connection refused"
    }
  ],
  "databases": [
    {
      "alias": "billing",
      "slots_used": 2,
      "slots_max": 64,
      "oldest_seconds": 4500,
      "oldest_gid": "hare_dtx_library:b88b0a6608fa9140:6ea7c41cfaa081487da2713a561b2ec7:billing",
      "xact_age": 12,
      "others": 0,
      "standby": false,
      "primary": ""
    }
  ],
  "young": 0,
  "unresolved": 1,
  "resolved": 0,
  "purged": 0,
  "decided": "commit",
  "participants": [
    {
      "alias": "inventory",
      "has": "unknown"
    },
    {
      "alias": "billing",
      "has": "prepared"
    }
  ]
}
`

func TestJSON(t *testing.T) {
	report := stuck()
	report.Entries, report.Databases = report.Entries[1:2], report.Databases[1:2]
	report.Unreachable = []transactions.Unreachable{{Alias: "inventory", Err: errors.New(`connection "inventory": connection refused`)}}
	report.Decided, report.Participants = "commit", []transactions.Participant{{Alias: "inventory", Has: transactions.WritesUnknown}, {Alias: "billing", Has: transactions.WritesPrepared}}
	var b bytes.Buffer
	if err := writeJSON(&b, round{at: at, report: report}, library(nil), "  "); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.String(), stuckJSON)
}

// Every field is there in every object, lists as lists, and in one line without an indent.
func TestEmptyJSON(t *testing.T) {
	var b bytes.Buffer
	r := round{at: at, report: transactions.Report{Coordinator: "library", Entries: []transactions.Entry{{Err: errors.New("<a> & b")}}}, err: errors.New("no answer")}
	if err := writeJSON(&b, r, library(finishing), ""); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.String(), `{"version":1,"at":"2026-07-30T03:12:45.678Z","coordinator":"library","coordinator_id":"","finish":true,"clean":false,"error":"no answer",`+
		`"entries":[{"xid":"","alias":"","gid":"","owner":"","age_seconds":0,"xact_age":0,"tables":[],"live":false,"action":"","reason":"","state":"","error":"<a> & b"}],`+
		`"unreachable":[],"databases":[],"young":0,"unresolved":0,"resolved":0,"purged":0,"decided":"","participants":[]}`+"\n")
}

// documentation is the command's page of the documentation.
func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/recover-command.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var documentedField = regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\| (string|integer|number|boolean|list)")

// Every field that can be written is documented with its type, and no other.
func TestEveryFieldIsDocumented(t *testing.T) {
	var documented []string
	for _, match := range documentedField.FindAllStringSubmatch(documentation(t), -1) {
		documented = append(documented, match[1]+" "+match[2])
	}
	written := fields("", reflect.TypeFor[jsonReport]())
	slices.Sort(documented)
	slices.Sort(written)
	if diff := cmp.Diff(written, documented); diff != "" {
		t.Errorf("written and documented (-written +documented):\n%s", diff)
	}
}

// fields are the paths of a struct's JSON fields with their types.
func fields(prefix string, of reflect.Type) (list []string) {
	kinds := map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number", reflect.Bool: "boolean", reflect.Slice: "list"}
	for field := range of.Fields() {
		path, kind := prefix+field.Tag.Get("json"), kinds[field.Type.Kind()]
		if field.Type == reflect.TypeFor[time.Time]() {
			kind = "string"
		}
		list = append(list, path+" "+kind)
		if kind == "list" && field.Type.Elem().Kind() == reflect.Struct {
			list = append(list, fields(path+"[].", field.Type.Elem())...)
		}
	}
	return list
}

// What the page shows is what the command prints.
func TestThePageShowsRealOutput(t *testing.T) {
	page := documentation(t)
	for name, text := range map[string]string{"the options": recoverUsage, "a report": stuckText, "a run that finishes": finishedText, "forgetting": forgetText, "JSON": stuckJSON} {
		if !strings.Contains(page, "\n"+text+"```") {
			t.Errorf("the page does not show %s as it is:\n%s", name, text)
		}
	}
}

// Each state, action and end of a participant that JSON can hold is explained.
func TestEveryValueIsDocumented(t *testing.T) {
	page := documentation(t)
	for _, value := range []any{
		transactions.StateNeeded, transactions.StateDone, transactions.StateGone, transactions.StateFailed, transactions.StateMixed, transactions.StateForgotten,
		transactions.ActionCommit, transactions.ActionRollback, transactions.ActionNone,
		transactions.WritesCommitted, transactions.WritesPrepared, transactions.WritesLost, transactions.WritesUnknown,
	} {
		if text := reflect.ValueOf(value).String(); !strings.Contains(page, "`"+text+"`") {
			t.Errorf("%T %q is not explained", value, text)
		}
	}
}
