package postgres_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/integration/servers"
)

// TestTLS: what each mode makes of servers with and without TLS, and of certificates.
func TestTLS(t *testing.T) {
	address := servers.Database(t)
	certificate, file, key := selfSigned(t, "localhost")
	_, other, _ := selfSigned(t, "elsewhere")
	secured, plain := newProxy(t, address), newProxy(t, address)
	secured.Secure(&tls.Config{Certificates: []tls.Certificate{certificate}})
	_, port, err := net.SplitHostPort(secured.Host())
	if err != nil {
		t.Fatal(err)
	}
	named, numbered := "localhost:"+port, secured.Host()

	connection := &backend.Error{Class: backend.ClassConnection, NotDone: true}
	login := &backend.Error{Class: backend.ClassLogin, NotDone: true}
	cases := map[string]struct {
		host    string
		options []string
		refused *backend.Error
	}{
		"require":                              {named, []string{"sslmode=require"}, nil},
		"prefer":                               {named, []string{"sslmode=prefer"}, nil},
		"verify-full":                          {named, []string{"sslmode=verify-full", "sslrootcert=" + file}, nil},
		"client certificate":                   {named, []string{"sslmode=require", "sslcert=" + file, "sslkey=" + key}, nil},
		"verify-ca with another name":          {numbered, []string{"sslmode=verify-ca", "sslrootcert=" + file}, nil},
		"verify-full with another name":        {numbered, []string{"sslmode=verify-full", "sslrootcert=" + file}, login},
		"verify-full with another authority":   {named, []string{"sslmode=verify-full", "sslrootcert=" + other}, login},
		"verify-ca with another authority":     {named, []string{"sslmode=verify-ca", "sslrootcert=" + other}, login},
		"require without TLS in the server":    {plain.Host(), []string{"sslmode=require"}, connection},
		"prefer without TLS in the server":     {plain.Host(), []string{"sslmode=prefer"}, nil},
		"allow without TLS in the server":      {plain.Host(), []string{"sslmode=allow"}, nil},
		"no mode, and no TLS in the server":    {plain.Host(), nil, nil},
		"verify-full, no TLS in the server":    {plain.Host(), []string{"sslmode=verify-full"}, connection},
		"verify-full, authorities of the host": {named, []string{"sslmode=verify-full", "sslrootcert=system"}, login},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			conn, err := open(t, through(t, address, c.host), c.options...).Acquire(t.Context())
			if c.refused != nil {
				refused(t, err, *c.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			run(t, conn, "SELECT 1")
			conn.Release()
		})
	}
}

// TestCertificateThatIsRefused: it is the client that refuses a server's certificate, and the error says which check failed
// and what to do, for each check and on the direct address, too.
// Fault S12.
func TestCertificateThatIsRefused(t *testing.T) {
	address := servers.Database(t)
	_, other, _ := selfSigned(t, "elsewhere")
	hour, now := time.Hour, time.Now()
	for _, c := range []struct {
		name    string
		change  func(*x509.Certificate)
		host    string // in the URL; default: localhost
		roots   string // default: the certificate itself
		options []string
		option  string
		says    []string
	}{
		{name: "unknown authority", roots: other, option: "sslrootcert", says: []string{"signed by an authority that is not among those trusted", `CN=localhost`, "sslrootcert=FILE", "sslrootcert=system"}},
		{name: "unknown authority, verify-ca", roots: other, options: []string{"sslmode=verify-ca"}, option: "sslrootcert", says: []string{"not among those trusted"}},
		{name: "unknown authority, require", roots: other, options: []string{"sslmode=require"}, option: "sslrootcert", says: []string{"not among those trusted"}},
		{name: "authorities of the system", roots: "system", option: "sslrootcert", says: []string{"not among those trusted"}},
		{name: "another name", change: func(c *x509.Certificate) { c.DNSNames = []string{"db1.internal", "db1"} }, option: "host", says: []string{`"localhost"`, `"db1.internal", "db1"`, "verify-ca"}},
		{name: "an address", host: "127.0.0.1", option: "host", says: []string{`"127.0.0.1"`, `"localhost"`}},
		{name: "only a common name", change: func(c *x509.Certificate) { c.DNSNames = nil }, option: "host", says: []string{"a common name does not count"}},
		{name: "expired", change: func(c *x509.Certificate) { c.NotAfter = now.Add(-hour) }, option: "sslmode", says: []string{"valid only until " + now.Add(-hour).UTC().Format(time.RFC3339), "Renew it", "clock"}},
		{name: "expired, verify-ca", change: func(c *x509.Certificate) { c.NotAfter = now.Add(-hour) }, options: []string{"sslmode=verify-ca"}, option: "sslmode", says: []string{"valid only until"}},
		{name: "not valid yet", change: func(c *x509.Certificate) { c.NotBefore = now.Add(hour) }, option: "sslmode", says: []string{"valid only from"}},
		{name: "for clients", change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, option: "sslmode", says: []string{"not fit for it", "another certificate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			certificate, file, _ := selfSigned(t, "localhost", func(made *x509.Certificate) {
				made.NotBefore = now.Add(-2 * hour)
				if c.change != nil {
					c.change(made)
				}
			})
			secured := newProxy(t, address)
			secured.Secure(&tls.Config{Certificates: []tls.Certificate{certificate}})
			_, port, err := net.SplitHostPort(secured.Host())
			if err != nil {
				t.Fatal(err)
			}
			host := cmp.Or(c.host, "localhost")
			options := append([]string{"sslrootcert=" + cmp.Or(c.roots, file)}, c.options...)
			if len(c.options) == 0 {
				options = append(options, "sslmode=verify-full")
			}
			db := open(t, through(t, address, host+":"+port), options...)
			for _, take := range []func(context.Context) (backend.Conn, error){db.Acquire, db.Dial} {
				_, err := take(t.Context())
				wantOption(t, err, c.option, c.says...)
				var wrong *hare.ConfigurationError
				if !errors.As(hare.ErrorFrom("main", "", err), &wrong) || strings.Contains(wrong.Error(), "refuses the login") || !strings.Contains(wrong.Error(), "the client refused the server") {
					t.Errorf("want a ConfigurationError that says who refuses, got %v", wrong)
				}
			}
		})
	}
}

// TestCertificateAtTheDirectAddress: the error names the address that the certificate was shown at.
// Fault S12.
func TestCertificateAtTheDirectAddress(t *testing.T) {
	address := servers.Database(t)
	certificate, file, _ := selfSigned(t, "localhost")
	secured := newProxy(t, address)
	secured.Secure(&tls.Config{Certificates: []tls.Certificate{certificate}})
	_, port, err := net.SplitHostPort(secured.Host())
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, through(t, address, "localhost:"+port), "sslmode=verify-full", "sslrootcert="+file, "transaction_pooling=true", "direct_host=127.0.0.1", "direct_port="+port)
	acquire(t, db)
	_, err = db.Dial(t.Context())
	wantOption(t, err, "host", "at the direct address 127.0.0.1:"+port, `the server's certificate is for "localhost"`)
}

// selfSigned makes a certificate for the name, and files of it and its key.
func selfSigned(t *testing.T, name string, changes ...func(*x509.Certificate)) (tls.Certificate, string, string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, certFile, keyFile
}
