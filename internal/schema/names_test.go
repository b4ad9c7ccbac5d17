package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSnake(t *testing.T) {
	want := map[string]string{
		"ID": "id", "Name": "name", "AuthorID": "author_id", "BookIDs": "book_ids", "IDs": "ids", "HTTPServer": "http_server",
		"HTTPSProxyURL": "https_proxy_url", "XMLHTTPRequest": "xmlhttp_request", "OAuth2Token": "o_auth2_token", "Sha256": "sha256",
		"X": "x", "XY": "xy", "A1B": "a1_b", "IsX": "is_x", "URLsSeen": "urls_seen", "Already_Snake": "already_snake", "APISign": "api_sign",
		"DNSSEC": "dnssec", "BossIDCopy": "boss_id_copy", "book": "book", "aB": "a_b", "Größe": "größe",
	}
	for name, column := range want {
		if got := snake(name); got != column {
			t.Errorf("%s: %q, want %q", name, got, column)
		}
	}
}

func TestConstraintNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	if got := ConstraintName("fk", "book", "author_id", "b"); got != "fk_book_author_id_b" {
		t.Errorf("got %q", got)
	}
	if got := ConstraintName("pk", strings.Repeat("x", 60)); got != "pk_"+long || len(got) != 63 {
		t.Errorf("63 bytes: got %q", got)
	}
	seen := map[string]bool{}
	for _, name := range []string{
		ConstraintName("uq", long, "a"), ConstraintName("uq", long, "b"), ConstraintName("uq", long+"_a"), ConstraintName("ck", long, "a"),
		indexName("a_b", []*Column{{Name: "c"}}), indexName("a", []*Column{{Name: "b_c"}}), indexName("a", []*Column{{Name: "b"}, {Name: "c"}}),
		indexName(long, []*Column{{Name: "c"}}), indexName(long, []*Column{{Name: "d"}}),
	} {
		if len(name) > 63 || seen[name] {
			t.Errorf("%q has %d bytes; seen before: %v", name, len(name), seen[name])
		}
		seen[name] = true
	}
	if got := indexName("book", []*Column{{Name: "title"}}); got != indexName("book", []*Column{{Name: "title"}}) ||
		!strings.HasPrefix(got, "idx_book_title_") || len(got) != len("idx_book_title_")+12 {
		t.Errorf("got %q", got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"title", "author_id", "id", "price", "published_at"}
	for name, want := range map[string]string{
		"titel": "title", "tilte": "title", "TITLE": "title", "autor_id": "author_id", "authorid": "author_id", "di": "id", "publishd_at": "published_at",
		"pirce": "price", "xyz": "", "": "", "author": "", "completely": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := Nearest("a", nil); got != "" {
		t.Errorf("with nothing known: %q", got)
	}
}

func TestErrorTexts(t *testing.T) {
	want := []string{
		`model Book: it is empty`,
		`model Book, field Title: it is bad`,
		`model Book, field Title, tag "size=x": it is bad`,
		`Book has no column or relation "titel": did you mean "title"?`,
		`Book has no column or relation "x"; it has id, title`,
		`Book has no column or relation "x"`,
		`Book.Title (column "title"): it is long`,
	}
	var got []string
	for _, err := range []error{
		&DeclarationError{Type: "Book", Reason: "it is empty"},
		&DeclarationError{Type: "Book", Field: "Title", Reason: "it is bad"},
		&DeclarationError{Type: "Book", Field: "Title", Tag: "size=x", Reason: "it is bad"},
		&NameError{Model: "Book", Name: "titel", Nearest: "title", Known: []string{"id", "title"}},
		&NameError{Model: "Book", Name: "x", Known: []string{"id", "title"}},
		&NameError{Model: "Book", Name: "x"},
		&ValueError{Model: "Book", Field: "Title", Column: "title", Reason: "it is long"},
	} {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

func TestNewUUID(t *testing.T) {
	seen := map[[16]byte]bool{}
	for range 100 {
		id := NewUUID()
		if id[6]>>4 != 4 || id[8]>>6 != 2 || seen[id] {
			t.Fatalf("%s is no new random UUID", formatUUID(id))
		}
		seen[id] = true
		back, err := parseUUID(formatUUID(id))
		if err != nil || back != id {
			t.Fatalf("%s came back as %s: %v", formatUUID(id), formatUUID(back), err)
		}
	}
}
