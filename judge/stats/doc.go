// Package stats holds the estimators and tests that verdicts are made of. It
// is pure: no clock, no files, and randomness only where it is handed in.
//
// Every result carries the number of values that it is made of, the coverage
// or level that it attained, whether it is exact, and warnings for a person.
// A result that cannot be had is never a guess: an interval is then ±Inf, a
// p-value 1, and a warning says what would be needed.
//
// Infinite values are values: the worst or best possible one, of which only
// the rank is known. NaN is no value: where one is found nothing is computed.
package stats
