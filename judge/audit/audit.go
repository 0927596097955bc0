// Package audit says what a published table can and cannot support.
//
// A table and its claims are written down once (see Schema); Of runs small
// checks over them, each of which knows one way in which figures mislead. The
// checks know tools and physics, and no table in particular.
package audit

import "fmt"

// Support says how far a table supports one claim.
type Support string

// The degrees of support. A claim that the figures refute is contradicted,
// whatever else is wrong with them. A claim whose figures are missing cannot be
// told. A claim that the figures agree with but cannot prove is not supported.
const (
	Supported    Support = "supported"
	NotSupported Support = "not supported"
	Contradicted Support = "contradicted"
	CannotTell   Support = "cannot be told"
)

// Supports lists all degrees of support.
var Supports = []Support{Supported, NotSupported, Contradicted, CannotTell}

// Weight is what a reason does to a claim.
type Weight string

// The weights of reasons.
const (
	Refutes   Weight = "refutes"   // the figures say otherwise
	Blinds    Weight = "blinds"    // what would be needed is not there
	Undoes    Weight = "undoes"    // the figures cannot carry the claim
	Qualifies Weight = "qualifies" // it holds, within this limit
	Agrees    Weight = "agrees"    // the figures say so
)

// Reason is why a claim is supported or not.
type Reason struct {
	Check  string `json:"check"` // name of the check: see Checks
	Weight Weight `json:"weight"`
	Text   string `json:"text"`
}

// Answer says how far one claim is supported, and why.
type Answer struct {
	Claim   string   `json:"claim"`
	Support Support  `json:"verdict"`
	Reasons []Reason `json:"reasons"`
}

// Finding is a fact about the table as a whole.
type Finding struct {
	Check string `json:"check"`
	Text  string `json:"text"`
}

// ReportSchema names the form of Report.
const ReportSchema = "bakeoff/audit/v1"

// Report is the audit of one table.
type Report struct {
	Schema   string    `json:"schema"`
	File     string    `json:"file"`
	Title    string    `json:"title"`
	Source   Source    `json:"source"`
	Answers  []Answer  `json:"answers"`
	Findings []Finding `json:"findings"`
	Assumed  []string  `json:"assumed"` // facts that the article does not give
}

// Check is one way in which published figures mislead.
type Check struct {
	Name string
	// Doc says what is looked for, and why it matters.
	Doc string
	// claim gives reasons for or against one claim; nil where the check only
	// looks at whole tables.
	claim func(*Table, *comparison) []Reason
	// table finds facts about the whole table, column about one of its
	// columns; nil where the check does not look there.
	table  func(*Table) []string
	column func(*Table, *Column) []string
}

// Checks returns every check, in the order in which reasons are given.
func Checks() []Check {
	return []Check{
		figuresCheck, missingCheck, croppedCheck, estimatedCheck,
		impossibleCheck, ceilingCheck, idleCheck, plateauCheck,
		timingCheck, workCheck, reversalCheck, protocolCheck, toolCheck, formulaCheck,
		noiseCheck, trimCheck, orderCheck, unstableCheck, selectedCheck, confounderCheck,
	}
}

// Of audits t, which Parse has found right. It keeps what it computes in t: one
// table is audited by one goroutine at a time.
func Of(t *Table) Report {
	r := Report{
		Schema: ReportSchema, File: t.File, Title: t.Title, Source: t.Source,
		Answers: []Answer{}, Findings: []Finding{}, Assumed: append([]string{}, t.Experiment.Assumed...),
	}
	checks := Checks()
	for i := range t.Claims {
		c := compare(t, &t.Claims[i])
		a := Answer{Claim: t.Claims[i].Text, Reasons: []Reason{}}
		for _, k := range checks {
			if k.claim == nil {
				continue
			}
			for _, reason := range k.claim(t, c) {
				reason.Check = k.Name
				a.Reasons = append(a.Reasons, reason)
			}
		}
		a.Support = support(a.Reasons)
		r.Answers = append(r.Answers, a)
	}
	for _, k := range checks {
		var found []string
		if k.table != nil {
			found = k.table(t)
		}
		for i := range t.Columns {
			if k.column != nil {
				found = append(found, k.column(t, &t.Columns[i])...)
			}
		}
		for _, text := range found {
			r.Findings = append(r.Findings, Finding{Check: k.Name, Text: text})
		}
	}
	return r
}

// because returns one reason.
func because(w Weight, format string, args ...any) []Reason {
	return []Reason{{Weight: w, Text: fmt.Sprintf(format, args...)}}
}

// oneFinding returns one finding.
func oneFinding(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }

// support weighs reasons: the heaviest one decides.
func support(reasons []Reason) Support {
	v := Supported
	for _, r := range reasons {
		switch {
		case r.Weight == Refutes:
			return Contradicted
		case r.Weight == Blinds:
			v = CannotTell
		case r.Weight == Undoes && v == Supported:
			v = NotSupported
		}
	}
	return v
}
