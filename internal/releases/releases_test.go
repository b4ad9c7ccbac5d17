package releases

import "testing"

// Releases with a known fault in what they do with prepared transactions are told.
//
// Field case 3.
func TestOutdatedReleases(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{
		140000: "14.9", 140008: "14.9", 140009: "", 140020: "", 150000: "15.4", 150003: "15.4", 150004: "", 150018: "",
		160000: "", 170010: "", 180000: "",
	} {
		if got := Outdated(version); got != want {
			t.Errorf("release %d: %q, want %q", version, got, want)
		}
	}
}
