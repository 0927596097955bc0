// Package stats has the estimators and tests behind verdicts. It is pure: it uses
// no clock and no files, and randomness only from its arguments.
//
// Every result has the number of values, the coverage or level attained, whether it
// is exact, and warnings. If a result cannot be computed, the interval is ±Inf, the
// p-value is 1, and a warning says what is needed.
//
// An infinite value is the worst or best possible value: only its rank is known. If
// a value is NaN, nothing is computed.
package stats
