package backend

import "strings"

// Nearest is the known name that name was probably meant to be, or "" if none is near: what an [OptionError] for an
// unknown option offers.
func Nearest(name string, known []string) string {
	folded := strings.ToLower(name)
	// A third of the letters may be wrong, and one of a short name, but never all of them.
	best, bestDistance := "", min(1+max(1, len(name)/3), len(name))
	for _, candidate := range known {
		if d := distance(folded, strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
