// Package bakeoff has no code. It holds a tour of the project and the tests that
// check its structure.
//
// Data flows in one direction:
//
//	bakeoff.yaml ─ manifest.Parse ─▶ lab ─ plan.Expand(seed) ─▶ blocks of trials
//	      ─ trial.Run: env.Lease → driver ▸ Runner.Run ▸ conn.Exec ─▶ raw output, counters ─▶ store
//	                  store ─ evidence.Load: Parser.Parse ─▶ observations ─ analysis.Analyse ─▶ verdicts
//	                                                           verdicts ─ report.Write ─▶ page
//
// The measuring half and the judging half meet only in the run folder. The
// judging half never needs a driver. See ARCHITECTURE.md.
package bakeoff
