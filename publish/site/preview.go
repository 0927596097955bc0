package site

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bakeoff/base/fault"
	"bakeoff/publish/site/theme"
)

// sampleFiles is a small site that has every element of a page.
//
//go:embed all:sample
var sampleFiles embed.FS

var previewPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; frame-src 'self'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Themes</title><link rel="stylesheet" href="preview.css"></head>
<body><main><h1>Themes</h1>
<p>Each frame shows the site with one theme. Set <code>THEME="NAME"</code> in config.sh.local.</p>
{{range .Themes}}<section><h2><a href="{{.Name}}/index.html">{{.Name}}</a></h2>
<p>{{.About}}</p>
<div><iframe src="{{.Name}}/index.html" title="{{.Name}}: the home page" loading="lazy"></iframe>
{{if $.Post}}<iframe src="{{.Name}}/{{$.Post}}" title="{{.Name}}: a post" loading="lazy"></iframe>
{{end}}</div></section>
{{end}}</main></body></html>
`))

const previewStyle = `:root { color-scheme: light dark; }
body { background: Canvas; color: CanvasText; font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 80rem; padding-inline: 1rem; }
h2 { margin-block: 2rem 0; }
p { margin-block: .2rem .6rem; }
div { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
iframe { width: 100%; height: 34rem; border: 1px solid GrayText; border-radius: .4rem; }
`

// Preview builds a site with every theme below dir, and a page that shows all of them,
// whose name it returns. siteDir "" is a sample.
func Preview(dir, siteDir string, now time.Time, program string) (string, error) {
	if siteDir == "" {
		sample, err := os.MkdirTemp("", "bakeoff-sample-")
		if err != nil {
			return "", fault.Wrap(fault.Lab, "preview", err)
		}
		defer os.RemoveAll(sample)
		files, err := fs.Sub(sampleFiles, "sample")
		if err == nil {
			err = os.CopyFS(sample, files)
		}
		if err != nil {
			return "", fault.Wrap(fault.Lab, "preview", err)
		}
		siteDir = sample
	}
	s, err := Open(siteDir)
	if err != nil {
		return "", err
	}
	defer s.Close()
	for _, t := range theme.All() {
		opt := Option{Now: now, Program: program, Theme: t.Name, Output: filepath.Join(dir, t.Name)}
		if _, err := s.Build(opt); err != nil {
			return "", err
		}
	}
	all, err := s.List(now)
	if err != nil {
		return "", err
	}
	data := struct {
		Themes []theme.Theme
		Post   string
	}{Themes: theme.All()}
	for _, l := range all {
		if l.Kind == "post" && l.Published {
			data.Post = l.Path[1:] + "index.html"
			break
		}
	}
	var page bytes.Buffer
	if err := previewPage.Execute(&page, data); err != nil {
		return "", fault.Wrap(fault.Lab, "preview", err)
	}
	name := filepath.Join(dir, "index.html")
	if err := os.WriteFile(filepath.Join(dir, "preview.css"), []byte(previewStyle), 0o644); err != nil {
		return "", fault.Wrap(fault.Lab, "preview", err)
	}
	return name, fault.Wrap(fault.Lab, "preview", os.WriteFile(name, page.Bytes(), 0o644))
}
