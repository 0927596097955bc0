package site

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/lab/store"
	"bakeoff/publish/chart"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
	"bakeoff/publish/site/content"
)

// run is a run that a post refers to.
type run struct {
	id, dir string
	key     string // of its files; "" if there is no such run
	parts   func() ([]report.Part, error)
}

// evidence are the files of a run that stand beside the copy of its page. Raw output is
// not among them: a web server could send a program's output as a page.
var evidence = []string{store.ResultsFile, store.PlanFile, store.JournalFile, store.LabFile}

// maxEvidence bounds each of them, in bytes.
const maxEvidence = 256 << 20

// runOf returns the run of a reference such as ID/figure.
func (b *build) runOf(ref string) *run {
	id, _, _ := strings.Cut(ref, "/")
	made, _ := b.runs.LoadOrStore(id, sync.OnceValue(func() *run { return b.openRun(id) }))
	return made.(func() *run)()
}

func (b *build) openRun(id string) *run {
	r := &run{id: id}
	at := b.cfg.Runs + "/" + id
	if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, `/\`) || !fs.ValidPath(at) {
		return r
	}
	// A link could lead to a folder outside of the site.
	if info, err := b.site.root.Lstat(at); err != nil || !info.IsDir() {
		return r
	}
	parts := []string{"run", id}
	for _, f := range evidence {
		info, err := b.site.root.Lstat(at + "/" + f)
		if err != nil || !info.Mode().IsRegular() {
			if f == store.ResultsFile || f == store.JournalFile {
				return r
			}
			continue
		}
		parts = append(parts, f, fmt.Sprint(info.Size(), info.ModTime().UnixNano()))
	}
	r.key, r.dir = digestOf(parts...), filepath.Join(b.site.Dir, filepath.FromSlash(at))
	r.parts = sync.OnceValues(func() ([]report.Part, error) { return report.Parts(r.dir, b.opt.Report) })
	return r
}

// embedReference returns the HTML of a reference, for package markdown.
func (b *build) embedReference(ref, alt string) (html []byte, problem string) {
	name, asTable := strings.CutSuffix(ref, "/table")
	r, p, problem := b.partOf(name)
	if problem != "" {
		b.broken.Store(ref, problem)
		return nil, problem
	}
	v := runView{ID: r.id, Alt: alt, Part: p, Href: rootToken + r.address(p),
		Table: asTable || p.Figure == nil && (len(p.Claims) == 0 || len(p.Claims) > fewClaims)}
	v.Claims = len(p.Claims) > 0 && !v.Table
	if p.Figure != nil && !asTable {
		// Draw escapes everything in it; its suite proves that.
		id := "run-" + content.Short(ref)
		v.Wide, v.Narrow = template.HTML(p.Figure.Draw(id+"-wide", columnWidth)),
			template.HTML(p.Figure.Draw(id+"-narrow", chart.Narrow))
	}
	var out bytes.Buffer
	if err := runTemplate.Execute(&out, v); err != nil {
		return nil, safetext.Line(err.Error())
	}
	return bytes.ReplaceAll(out.Bytes(), []byte(rootToken), []byte{0}), ""
}

// runLink returns the address below the root to which a link in a text leads, for package
// markdown; "" if there is nothing.
func (b *build) runLink(ref string) string {
	r, p, problem := b.partOf(ref)
	switch {
	case problem != "":
		b.broken.Store(ref, problem)
		return ""
	case ref == r.id:
		return runsPath + r.id + "/report/"
	}
	return r.address(p)
}

// missing is an error that names each reference to what no run has, with its place in the
// texts that are published: a page without its figure would not show that anything is lacking.
func (b *build) missing() error {
	var problems []error
	b.broken.Range(func(ref, problem any) bool {
		for _, p := range b.posts {
			if p == nil || p.Draft && !b.opt.Drafts {
				continue
			}
			text, err := b.readSource(p.File)
			if err != nil {
				problems = append(problems, fault.Wrap(fault.Invalid, p.File, err))
				continue
			}
			for i, line := range bytes.Split(text, []byte("\n")) {
				if refersTo(line, ref.(string)) {
					problems = append(problems, fault.New(fault.Invalid, "%s:%d: run:%s: %s", safetext.Line(p.File), i+1,
						safetext.Line(ref.(string)), problem))
				}
			}
		}
		return true
	})
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// refersTo reports whether a line has a reference: the name does not go on behind it.
func refersTo(line []byte, ref string) bool {
	for {
		_, after, ok := bytes.Cut(line, []byte("run:"+ref))
		if !ok {
			return false
		}
		if len(after) == 0 || !strings.ContainsRune("/-_.", rune(after[0])) && !unicode.IsLetter(rune(after[0])) &&
			!unicode.IsDigit(rune(after[0])) {
			return true
		}
		line = after
	}
}

// address is where the copy of the run's page shows a part, below the site's root.
func (r *run) address(p report.Part) string {
	_, anchor, _ := strings.Cut(p.Href, "#")
	return runsPath + r.id + "/report/index.html#" + anchor
}

// partOf returns the part of a run that a reference such as ID/figure names; ID alone is
// that of the verdicts.
func (b *build) partOf(ref string) (r *run, p report.Part, problem string) {
	if r = b.runOf(ref); r.key == "" {
		return r, p, fmt.Sprintf("%s has no such run with results", b.cfg.Runs)
	}
	parts, err := r.parts()
	if err != nil {
		return r, p, safetext.Line(err.Error())
	}
	_, name, _ := strings.Cut(ref, "/")
	name = cmp.Or(name, "verdicts")
	if at := slices.IndexFunc(parts, func(p report.Part) bool { return p.Name == name }); at >= 0 {
		return r, parts[at], ""
	}
	names := lists.Map(parts, func(p report.Part) string { return p.Name })
	return r, p, "the run has no such figure; use " + strings.Join(names[:min(len(names), maxNames)], ", ")
}

// maxNames bounds the figures that an error lists: a run of many cells has hundreds.
const maxNames = 200

type runView struct {
	ID, Alt, Href string
	Part          report.Part
	Wide, Narrow  template.HTML // one of them is shown
	Claims, Table bool
}

// fewClaims is the number of verdicts up to which sentences are read; more are a table.
const fewClaims = 3

// columnWidth is the room that a figure has in the text of a post, in CSS pixels.
const columnWidth = 640

var runTemplate = template.Must(template.New("").Parse(`<figure class="run-figure">
{{- with .Part.Notice.Alarms}}<div class="run-alarm">{{range .}}<p><strong>{{.}}</strong></p>{{end}}</div>{{end}}
{{- with .Part.Notice.Warnings}}<ul class="run-cautions">{{range .}}<li>{{.}}</li>{{end}}</ul>{{end}}
{{- if .Wide}}<div class="run-drawing run-wide">{{.Wide}}</div>
<div class="run-drawing run-narrow">{{.Narrow}}</div>{{end}}
{{- if .Claims}}<ul class="run-claims">{{range .Part.Claims}}<li>{{.Text}}</li>{{end}}</ul>{{end}}
{{- define "table"}}<div class="scroll" tabindex="0"><table><thead><tr>
{{- $head := .Head}}{{range .Head}}<th scope="col">{{.}}</th>{{end}}</tr></thead><tbody>
{{- range .Rows}}<tr>{{range $i, $cell := .}}<td data-label="{{index $head $i}}">{{$cell}}</td>{{end}}</tr>{{end}}
{{- ""}}</tbody></table></div>
{{- with .Note}}<p>{{.}}</p>{{end}}{{end}}
{{- if .Table}}{{template "table" .Part.Table}}{{else if .Wide}}<details><summary>{{.Part.Title}}</summary>
{{- template "table" .Part.Table}}</details>{{end}}
{{- with .Part.Notice}}<details class="run-about"><summary>Twin and scope</summary><p>{{.Twin}}</p>
{{- with .Scope}}<p>{{.}}</p>{{end}}</details>{{end}}
<figcaption>{{if .Alt}}{{.Alt}}{{else}}{{.Part.Title}}{{end}} <a class="evidence" href="{{.Href}}">run {{.ID}}</a>
</figcaption></figure>
`))

// planRuns copies the pages of the runs that posts refer to, and of those of the index.
// Each page is written again from the run's results: a page of a stranger could hold
// anything.
func (b *build) planRuns() {
	var ids []string
	b.everyEntry(func(e *entry) { ids = append(ids, e.Runs...) })
	b.hasRuns = len(ids) > 0
	for i := range ids {
		ids[i], _, _ = strings.Cut(ids[i], "/")
	}
	for _, e := range b.indexed {
		if e.Page {
			ids = append(ids, e.Folder)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		r := b.runOf(id)
		if r.key == "" {
			continue
		}
		opt := b.opt.Report
		if len(b.indexed) > 0 {
			opt.Index = runsite.IndexOfReport
		}
		b.addFile(runsPath+id+"/report/index.html", digestOf(r.key, opt.Index), func(w *bytes.Buffer) error {
			return report.Page.Folder(w, r.dir, opt)
		})
		if len(b.indexed) == 0 {
			b.addFile(runsPath+id+"/index.html", digestOf(r.key, "folder"), func(w *bytes.Buffer) error {
				return b.runFolder(w,
					r)
			})
		}
		for _, f := range evidence {
			from := b.cfg.Runs + "/" + id + "/" + f
			if _, err := b.site.root.Lstat(from); err == nil {
				b.addFile(runsPath+id+"/"+f, digestOf(r.key, f), func(w *bytes.Buffer) error {
					text, err := readBounded(b.site.root, from, maxEvidence)
					w.Write(text)
					return err
				})
			}
		}
	}
}

// runFolder writes the page of the folder of a run, for a site without an index of runs.
func (b *build) runFolder(w *bytes.Buffer, r *run) error {
	root, err := b.site.root.OpenRoot(b.cfg.Runs)
	if err != nil {
		return fault.Wrap(fault.Invalid, b.cfg.Runs, err)
	}
	defer root.Close()
	e := runsite.Entry{Folder: r.id}
	if e.Entry, _, err = report.Describe(r.dir); e.Problem != "" {
		return fault.Wrap(fault.Invalid, r.id, err)
	}
	e.Page = true
	return runsite.New(root, []runsite.Entry{e}, runsite.Look{Version: b.opt.Report.Version,
		Site: runsite.Link{Text: b.cfg.Title, Href: "../"}, Alone: true}).RunPage(w)
}

// everyEntry calls the function each with every post and every page of the site.
func (b *build) everyEntry(each func(*entry)) {
	for _, s := range b.sections {
		for _, list := range [][]*entry{s.posts, s.pages, s.secondary, {s.home}} {
			for _, e := range list {
				if e != nil {
					each(e)
				}
			}
		}
	}
}

// runStyle is what figures of runs need. Their colors hold inside of them only.
func runStyle() string {
	return "\n/* figures of runs */\n" + strings.ReplaceAll(chart.Colors, ":root {", ".run-figure {") + chart.Style +
		".run-figure { background: var(--paper); color: var(--ink); padding: .8rem 1rem; border: 1px solid var(--rule); }\n" +
		".run-figure a, .run-figure summary { color: var(--link); }\n" +
		".run-figure summary { font-size: .88rem; }\n" +
		".run-figure .run-alarm { border-left: 4px solid var(--alarm); padding-left: .7rem; margin: 0 0 .7rem; " +
		"color: var(--alarm); }\n" +
		".run-figure .run-alarm p { margin: .3rem 0; }\n" +
		".run-figure .run-cautions, .run-figure .run-about { color: var(--soft); font-size: .88em; }\n" +
		".run-figure table { font-size: .76em; }\n.run-figure :is(th, td) { padding: .25rem .3rem; }\n" +
		".run-figure figcaption { color: var(--soft); }\n.run-figure th { background: var(--panel); }\n" +
		".run-figure svg { width: 100%; }\n.run-narrow { display: none; max-width: 26rem; }\n" +
		"@media screen and (max-width: 40rem) { .run-wide { display: none; } .run-narrow { display: block; }\n" +
		// A row becomes a card: a phone does not show seven columns beside each other.
		".run-figure thead { display: none; } .run-figure :is(table, tbody) { display: block; }\n" +
		".run-figure tr { display: grid; grid-template-columns: repeat(3, 1fr); padding-block: .4rem; }\n" +
		".run-figure tr + tr { border-block-start: 1px solid var(--rule); }\n" +
		".run-figure td { border: 0; overflow-wrap: anywhere; }\n" +
		".run-figure td::before { content: attr(data-label); display: block; color: var(--soft); font-size: .85em; } }\n"
}
