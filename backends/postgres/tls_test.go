package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// selfSigned makes a certificate for the name, and files of it and its key.
func selfSigned(t *testing.T, name string) (tls.Certificate, string, string) {
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
