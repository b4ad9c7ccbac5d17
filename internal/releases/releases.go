// Package releases knows which releases of PostgreSQL have a fault that matters to prepared transactions.
package releases

import "fmt"

// firstSound are the minor releases of PostgreSQL before which a server that crashes during a checkpoint may not start
// again while something is prepared in it (release notes of 15.4: "Avoid double replay of prepared transactions during
// crash recovery"). Later major versions have been without the fault from their first release on.
var firstSound = map[int]int{14: 9, 15: 4}

// Outdated is the release that a server should be brought to, or empty. version is its server_version_num.
func Outdated(version int) string {
	major, minor := version/10000, version%10000
	if first, ok := firstSound[major]; ok && minor < first {
		return fmt.Sprintf("%d.%d", major, first)
	}
	return ""
}
