package site

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// now is when the tests build.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// blog writes files into a new folder. A name that ends in a slash is a folder.
func blog(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// build builds a site as one program would, in the year 2026.
func buildSite(t testing.TB, dir string, opt Option) Result {
	t.Helper()
	r, err := tryBuild(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryBuild(dir string, opt Option) (Result, error) {
	s, err := Open(dir)
	if err != nil {
		return Result{}, err
	}
	defer s.Close()
	if opt.Now.IsZero() {
		opt.Now = now
	}
	opt.Program = "test"
	return s.Build(opt)
}

// tree returns the files below dir by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sample is a blog with all that BSSG documents of its layout and front matter.
var sample = map[string]string{
	"config.sh.local": `# settings of a blog
SITE_TITLE="Harbor & Tide"
SITE_DESCRIPTION='Notes from the quay'
SITE_URL="https://example.com/blog"
export AUTHOR_NAME="Ada"
AUTHOR_EMAIL="ada@example.com"
SITE_LANG=en
DATE_FORMAT="%B %d, %Y"
TIMEZONE="UTC"
POSTS_PER_PAGE=2
MARKDOWN_PROCESSOR="commonmark"
ENABLE_AUTHOR_RSS=true
`,
	"src/2025-04-01-first.md": `---
title: First: a post with a colon
date: 2025-04-01 09:30:00 +0200
lastmod: 2025-04-03 10:00:00 +0200
tags: bsd, C++, web
slug: first-post
description: The first one
image: /images/harbor.jpg
image_caption: A harbor
author_name: Grace
author_email: grace@example.com
---

# A heading

Text with a [page](/about/), *emphasis* and ` + "`code`" + `.

| a | b |
|---|--:|
| 1 | 2 |

` + "```go\nfunc main() {}\n```\n",
	"src/2025-05-06-second.md": "---\ntitle: Second\ndate: 2025-05-06\ntags: bsd\n---\nThe second text.\n",
	"src/2025-05-07-third.md":  "---\ntitle: \"Third\"\ndate: 2025-05-07 08:00\ntags: web\n---\nThe third text.\n",
	"src/later.md":             "---\ntitle: Later\ndate: 2027-01-01 00:00:00 +0000\ntags: bsd\n---\nNot yet.\n",
	"pages/about.md":           "---\ntitle: About\ndate: 2025-01-01\nslug: about\n---\nWho writes.\n",
	"pages/imprint.md": "---\ntitle: Imprint\ndate: 2025-01-01\nslug: imprint\n" +
		"secondary: true\n---\nThe imprint.\n",
	"drafts/idea.md":     "---\ntitle: Idea\ndate: 2025-01-01\n---\nAn idea.\n",
	"static/favicon.ico": "icon",
}
