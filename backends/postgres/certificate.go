package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hare-go/hare/hare/backend"
)

// distrust is the error for a connection that the client has refused because of the server's certificate, or nil. It is
// the client that refuses, and it knows why.
func distrust(err error) *backend.Error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		roots     x509.SystemRootsError
		failed    *tls.CertificateVerificationError
		because   *backend.Error
	)
	switch {
	case errors.As(err, &authority):
		because = misconfigured("sslrootcert", "does not lead to the server's certificate%s: it was signed by an authority that is not among those trusted, so the client refused the server. "+
			"Say sslrootcert=FILE with the certificate of the authority that signed it, or sslrootcert=system if the operating system knows it; "+
			"a certificate that nobody has put there may be a stranger's", of(authority.Cert))
	case errors.As(err, &name):
		because = misconfigured("host", "is %q, and the server's certificate is for %s, so the client refused the server. Name the server in the URL as its certificate does, "+
			"or give it a certificate for this name; sslmode=verify-ca does not compare names, and is as safe only with an authority that signs for nobody else",
			name.Host, namesOf(name.Certificate))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		because = misconfigured("sslmode", "has certificates verified, and the server's%s is %s, so the client refused the server. Renew it on the server, or set this machine's clock right",
			of(invalid.Cert), validity(invalid.Cert, time.Now()))
	case errors.As(err, &roots):
		because = misconfigured("sslrootcert", "is system, and the operating system's authorities cannot be read. Install them, or say sslrootcert=FILE")
	case errors.As(err, &invalid), errors.As(err, &failed), unfit(err):
		because = misconfigured("sslmode", "has certificates verified, and the server's is not fit for it (%s), so the client refused the server. Give the server another certificate", reason(err))
	default:
		return nil
	}
	because.Err = errors.Join(because.Err, err)
	return because
}

// unfit reports whether err is one of the rarer complaints about a certificate.
func unfit(err error) bool {
	var (
		constraint x509.ConstraintViolationError
		algorithm  x509.InsecureAlgorithmError
		extension  x509.UnhandledCriticalExtension
	)
	return errors.As(err, &constraint) || errors.As(err, &algorithm) || errors.As(err, &extension)
}

// reason is what the library says, without the address before it.
func reason(err error) string {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) {
		return invalid.Error()
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return verification.Err.Error()
	}
	return err.Error()
}

// of names a certificate by its subject.
func of(c *x509.Certificate) string {
	if c == nil || c.Subject.String() == "" {
		return ""
	}
	return fmt.Sprintf(" (%q, by %q)", c.Subject, c.Issuer)
}

// namesOf are the names that a certificate is for.
func namesOf(c *x509.Certificate) string {
	if c == nil {
		return "another name"
	}
	var names []string
	for _, name := range c.DNSNames {
		names = append(names, strconv.Quote(name)) // a stranger's
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name (a common name does not count: it takes a subject alternative name)"
	}
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// validity says on which side of its time a certificate is.
func validity(c *x509.Certificate, now time.Time) string {
	switch {
	case c == nil:
		return "out of its time"
	case now.Before(c.NotBefore):
		return "valid only from " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return "valid only until " + c.NotAfter.UTC().Format(time.RFC3339)
}
