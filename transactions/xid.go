package transactions

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hare-go/hare/hare"
)

// A distributed transaction's xid is
//
//	hare_dtx_<coordinator>:<coordinator's database>:<128 random bits>
//
// and the GID of a participant is the xid, a colon and the participant's alias. The second part is the id that the
// coordinator's database gave itself when hare first used it: two services may both call their coordinator "default" and
// share a participant, and neither may ever touch the other's prepared transactions. Nothing in either name depends on
// a process, so that any process can finish what another began.
const (
	xidPrefix      = "hare_dtx_"
	coordinatorHex = 16  // length of the coordinator database's id, 64 random bits in hex
	uniqueHex      = 32  // length of the random part
	maxGID         = 199 // PostgreSQL refuses a GID of 200 bytes and more (documentation, PREPARE TRANSACTION)
)

// randomHex gives n hex digits from the system's random source.
func randomHex(n int) string {
	b := make([]byte, n/2)
	rand.Read(b) // never fails (Go documentation, crypto/rand)
	return hex.EncodeToString(b)
}

// xidStart is what every xid of one coordinator's database begins with.
func xidStart(coordinator, id string) string {
	return xidPrefix + coordinator + ":" + id + ":"
}

// xidOf is the xid with the given random part.
func xidOf(coordinator, id, unique string) string { return xidStart(coordinator, id) + unique }

func gidOf(xid, alias string) string { return xid + ":" + alias }

// splitGID takes a GID apart that belongs to the coordinator's database with the given id, under whatever alias it was
// made. Anything that is not exactly such a GID is not ok: it belongs to somebody else and is never touched.
func splitGID(id, gid string) (xid, alias string, ok bool) {
	_, rest, ok := cutXID(id, gid)
	if !ok || len(rest) < uniqueHex+2 || rest[uniqueHex] != ':' || !isHex(rest[:uniqueHex]) {
		return "", "", false
	}
	alias = rest[uniqueHex+1:]
	return gid[:len(gid)-len(alias)-1], alias, true
}

// splitXID is the same for an xid; coordinator is the alias that it was made under.
func splitXID(id, xid string) (coordinator string, ok bool) {
	coordinator, rest, ok := cutXID(id, xid)
	return coordinator, ok && len(rest) == uniqueHex && isHex(rest)
}

// cutXID cuts an xid or a GID around the id of the coordinator's database.
func cutXID(id, text string) (coordinator, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, xidPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(text, ":"+id+":")
}

// ParseXID gives the alias under which the coordinator made an xid. The error, a [*hare.QueryError], tells what is wrong
// with a text that is no xid, and recognises a GID.
func ParseXID(text string) (coordinator string, err error) {
	coordinator, id, unique, rest, ok := takeApart(text)
	switch {
	case !ok:
		return "", &hare.QueryError{Reason: fmt.Sprintf("%q is no xid: one looks like %s", text, xidOf("<coordinator>", "<16 hex digits>", "<32 hex digits>"))}
	case len(rest) > 0:
		return "", &hare.QueryError{Reason: fmt.Sprintf("%q is the GID of a participant; its xid is %s", text, xidOf(coordinator, id, unique))}
	}
	return coordinator, nil
}

// ParseGID gives the xid that a GID of pg_prepared_xacts belongs to, and the alias of the participant that prepared it.
// The error, a [*hare.QueryError], says that the GID is none that hare makes: it is somebody else's.
func ParseGID(text string) (xid, participant string, err error) {
	coordinator, id, unique, rest, ok := takeApart(text)
	if participant = strings.Join(rest, ":"); !ok || participant == "" {
		return "", "", &hare.QueryError{Reason: fmt.Sprintf("%q is no GID of hare's: one looks like %s", text, gidOf(xidOf("<coordinator>", "<16 hex digits>", "<32 hex digits>"), "<participant>"))}
	}
	return xidOf(coordinator, id, unique), participant, nil
}

// takeApart takes an xid or a GID apart, whoever's it is. rest are the parts of the participant's alias, of which an xid has
// none.
func takeApart(text string) (coordinator, id, unique string, rest []string, ok bool) {
	text, ok = strings.CutPrefix(text, xidPrefix)
	if !ok {
		return "", "", "", nil, false
	}
	parts := strings.Split(text, ":")
	for n := 3; n <= len(parts); n++ {
		id, unique = parts[n-2], parts[n-1]
		if len(id) == coordinatorHex && isHex(id) && len(unique) == uniqueHex && isHex(unique) {
			return strings.Join(parts[:n-2], ":"), id, unique, parts[n:], true
		}
	}
	return "", "", "", nil, false
}

func isHex(s string) bool {
	for _, r := range s {
		if !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

// checkNames refuses aliases that a GID, or the row of the decision, cannot carry.
func checkNames(coordinator string, participants []string) error {
	for _, alias := range append([]string{coordinator}, participants...) {
		if i := strings.IndexFunc(alias, uncarriable); i >= 0 || !utf8.ValidString(alias) {
			return &hare.ConfigurationError{Alias: alias, Reason: fmt.Sprintf(
				"the alias %q has a character that a distributed transaction cannot carry in its GID: a comma, a control character or invalid UTF-8; rename it", alias)}
		}
	}
	for _, alias := range participants {
		length := len(xidStart(coordinator, strings.Repeat("0", coordinatorHex))) + uniqueHex + 1 + len(alias)
		if length > maxGID {
			return &hare.ConfigurationError{Alias: alias, Reason: fmt.Sprintf(
				"its GID under coordinator %q would be %d bytes long, and PostgreSQL takes %d: shorten the aliases", coordinator, length, maxGID)}
		}
	}
	return nil
}

func uncarriable(r rune) bool { return r == ',' || unicode.IsControl(r) }
