// Package integration holds the tests that need real servers: the distributed commit and its recovery, with faults
// injected between the calls, and real kills.
package integration
