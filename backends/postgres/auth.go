package postgres

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hare-go/hare/hare/backend"
)

// A server says how the client shall prove who it is, and a client that does as it is told gives its password to whoever
// answers at the address. So what the server asks for is looked at before pgx answers: it must be among what require_auth
// allows, bound to the TLS channel where channel_binding requires it, and not the password itself, readable, on a way on
// which somebody may listen or have taken the server's place. pgx knows the first two rules as well, and has no error
// of a kind for them.

// methods are what require_auth may name, as libpq has them.
var methods = []string{"password", "md5", "gss", "sspi", "scram-sha-256", "oauth", "none"}

// requireAuth checks the option: a list of methods, or of methods that are not allowed, each with an exclamation mark.
func requireAuth(_ *options, value string) string {
	list := strings.Split(value, ",")
	for i, entry := range list {
		method, negated := strings.CutPrefix(entry, "!")
		switch {
		case !slices.Contains(methods, method):
			return "has an element that is none of " + strings.Join(methods, ", ") + ", or one of these after an exclamation mark"
		case negated != strings.HasPrefix(list[0], "!"):
			return "mixes methods that are allowed with methods that are not"
		case slices.Contains(list[:i], entry):
			return "names a method twice"
		}
	}
	return ""
}

// policy is what a configuration lets a server ask for.
type policy struct {
	allowed  []string // the elements of require_auth; all methods without any
	bound    bool     // channel_binding=require
	verifies bool     // where there is TLS, the server's certificate is verified
}

func policyOf(c *pgconn.Config) policy {
	p := policy{bound: c.ChannelBinding == "require", verifies: verifies(c.TLSConfig)}
	for entry := range strings.SplitSeq(c.RequireAuth, ",") {
		if entry = strings.TrimSpace(entry); entry != "" { // spaces are libpq's, in PGREQUIREAUTH
			p.allowed = append(p.allowed, entry)
		}
	}
	for _, other := range c.Fallbacks {
		p.verifies = p.verifies && (other.TLSConfig == nil || verifies(other.TLSConfig))
	}
	return p
}

// verifies reports whether a configuration has the server's certificate verified: by crypto/tls, or, for verify-ca, by pgx.
func verifies(c *tls.Config) bool {
	return c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil)
}

// allows reports whether a server may ask for a method; "none" is to ask for nothing.
func (p policy) allows(method string) bool {
	switch {
	case len(p.allowed) == 0:
		return true
	case strings.HasPrefix(p.allowed[0], "!"):
		return !slices.Contains(p.allowed, "!"+method)
	}
	return slices.Contains(p.allowed, method)
}

// transportOf is how a connection that has just been opened is protected.
func transportOf(conn net.Conn, verifies bool) backend.Transport {
	_, encrypted := conn.(*tls.Conn)
	return backend.Transport{Local: isLocal(conn.RemoteAddr()), Encrypted: encrypted, Verified: encrypted && verifies}
}

// isLocal reports whether an address is on this machine, where nobody stands between. Tests replace it.
var isLocal = func(address net.Addr) bool {
	switch a := address.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

// login looks at what a server asks of a client that logs in.
type login struct {
	policy policy
	way    backend.Transport
	proved bool // the server has asked for something
}

// The codes of a server's messages R, authentication (PostgreSQL documentation, Message Formats).
const (
	authOK       = 0
	authPassword = 3
	authMD5      = 5
	authGSS      = 7
	authSSPI     = 9
	authSASL     = 10
)

// examine is an [examiner]. It looks no further than the end of the log-in.
func (l *login) examine(kind byte, body []byte) (bool, examiner, error) {
	switch {
	case kind == 'E', kind == 'Z':
		return true, nil, nil
	case kind != 'R' || len(body) < 4:
		return true, l.examine, nil
	}
	code := binary.BigEndian.Uint32(body)
	if code == authOK {
		if l.proved {
			return true, nil, nil
		}
		return true, nil, l.judge("none", false)
	}
	l.proved = true
	method, bound := methodOf(code, body[4:])
	if method == "" { // the next step of something
		return true, l.examine, nil
	}
	return true, l.examine, l.judge(method, bound)
}

// methodOf is the method of a code, and whether it can be bound to the channel. It is empty for the steps after the first.
func methodOf(code uint32, rest []byte) (method string, bound bool) {
	switch code {
	case authPassword:
		return "password", false
	case authMD5:
		return "md5", false
	case authGSS:
		return "gss", false
	case authSSPI:
		return "sspi", false
	case authSASL:
		offered := strings.Split(string(bytes.TrimRight(rest, "\x00")), "\x00")
		if !slices.ContainsFunc(offered, func(m string) bool { return strings.HasPrefix(m, "SCRAM-") }) && slices.Contains(offered, "OAUTHBEARER") {
			return "oauth", false
		}
		return "scram-sha-256", slices.Contains(offered, "SCRAM-SHA-256-PLUS")
	}
	return "", false
}

// judge refuses what the server asks for and must not get.
func (l *login) judge(method string, bound bool) error {
	asks := "asks for " + method
	if method == "none" {
		asks = "lets the client in without a proof"
	}
	switch {
	case !l.policy.allows(method):
		return misconfigured("require_auth", "is %s, and the server %s, so nothing was sent to it. "+
			"Have the server ask for what is allowed (pg_hba.conf; auth_type of PgBouncer), or change the option; a server that nobody has set up so may be a stranger's",
			strings.Join(l.policy.allowed, ","), asks)
	case l.policy.bound && !bound:
		return misconfigured("channel_binding", "is require, and the server %s, which is not bound to the channel, so nothing was sent to it. "+
			"It takes TLS (sslmode=require or a stronger one) and scram-sha-256 on a server that speaks them itself; most poolers do not", asks)
	case method == "password" && !l.readable():
		return misconfigured("sslmode", "lets %s pass, and the server asks there for the password in clear text, so it was not sent. "+
			"Say sslmode=verify-full, with the authority of the server's certificate (sslrootcert=FILE); or have the server ask for scram-sha-256; "+
			"or, where the way is safe by other means, say require_auth=password", l.unsafe())
	}
	return nil
}

// readable reports whether the password itself may be sent.
func (l *login) readable() bool {
	return l.way.Local || l.way.Verified || slices.Contains(l.policy.allowed, "password")
}

func (l *login) unsafe() string {
	if l.way.Encrypted {
		return "a connection whose other end was not verified"
	}
	return "an unencrypted connection"
}
