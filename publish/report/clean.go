package report

// keepEnds shortens s to n runes at most, n > 2, of its beginning and its end: names
// that are made of parts often differ in the last.
func keepEnds(s string, n int) string {
	rs := []rune(s)
	if len(rs) <= n {
		return s
	}
	return string(rs[:n/2]) + "…" + string(rs[len(rs)-(n-1)/2:])
}
