// Package bakeoff has no code: it holds the tour of the house and the tests
// that keep its shape.
//
// The data goes one way:
//
//	bakeoff.yaml ─ manifest.Parse ─▶ lab ─ plan.Expand(seed) ─▶ blocks of trials
//	      ─ trial.Run: env.Lease → driver ▸ conn.Exec ▸ workload ─▶ raw output + counters ─▶ store (append-only)
//	                  store ─ evidence.Load: workload.Parse ─▶ observations ─ analysis.Analyse ─▶ verdicts
//	                                                           verdicts ─ report.Write ─▶ page
//
// The two halves meet only in the run folder. The right half never needs a
// driver. See ARCHITECTURE.md.
package bakeoff
