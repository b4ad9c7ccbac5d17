package doctor

import "github.com/hare-go/hare/hare/backend"

// encryption tells how the connections are protected, those to the direct address apart.
func encryption(d *database, _ *examination) (findings []Finding) {
	if d.path == nil {
		return nil
	}
	findings = append(findings, judgeTransport("", d.path.Transport))
	if direct := d.path.DirectTransport; direct != nil {
		findings = append(findings, judgeTransport(" at the direct address "+d.path.Direct, *direct))
	}
	return findings
}

// judgeTransport warns of a connection on which somebody may listen, or stand in for the server.
func judgeTransport(where string, t backend.Transport) Finding {
	const verify = "say sslmode=verify-full in the URL, with the authority that signed the server's certificate: sslrootcert=FILE, or sslrootcert=system"
	switch {
	case t.Encrypted && t.Verified:
		return found(OK, "encrypted, and the server's certificate is verified%s", where)
	case t.Local:
		return found(OK, "not needed: an address of this machine%s", where)
	case t.Encrypted:
		f := found(Warning, "encrypted, and the server's certificate is not verified%s", where)
		f.Why = "somebody on the way can take the server's place, and read and change everything"
		f.Mend = verify
		return f
	}
	f := found(Warning, "none%s: another machine, and the connection is not encrypted", where)
	f.Mend = "let the server speak TLS (ssl = on; client_tls_sslmode of PgBouncer), and " + verify
	return f
}
