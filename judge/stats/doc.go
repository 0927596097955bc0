// Package stats has the estimators and tests behind verdicts. It is pure: it uses
// no clock and no files, and randomness only from its arguments.
//
// Every result has the number of values, the coverage or level attained, whether it
// is exact, and warnings. A result that cannot be computed is never a guess: an
// interval is then ±Inf, a p-value 1, and a warning says what is needed.
//
// An infinite value is the worst or best possible value, of which only the rank is
// known. With a NaN among the values, nothing is computed.
package stats
