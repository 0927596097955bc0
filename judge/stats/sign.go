package stats

// SignTest returns the two-sided p-value of plus against minus under equal
// chances: the exact sign test. Counts are not negative.
//
// Source: Arbuthnott 1710; Conover, Practical Nonparametric Statistics, 3.4.
func SignTest(plus, minus int) float64 {
	n, k := plus+minus, min(plus, minus)
	var p float64
	for i := range k + 1 {
		p += binomialHalf(n, i)
	}
	return min(1, 2*p)
}
