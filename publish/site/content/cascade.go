package content

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/goccy/go-yaml"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Cascade is what a page of a section of Hugo, or the configuration, gives the pages below it.
type Cascade struct {
	Fields   map[string]any // by their names in lower case
	Targeted bool           // Fields include some that may be meant for a part of the pages
	HasText  bool           // the page of the section has a text
	Hidden   bool           // Hugo publishes neither the section nor a page below it
	Ignored  []string       // regular expressions of files that Hugo does not read

	Folder    string            // of the texts
	Language  string            // of texts that name none
	Languages map[string]string // their folders; "" is that of all languages
	Disabled  []string          // languages that Hugo does not publish
	Mounts    bool              // other folders are mounted as that of the texts
}

// CascadeOf reads a page of a section of Hugo, such as _index.md. A part for a target counts only
// as far as it keeps pages from being published. An error is of kind fault.Invalid.
func CascadeOf(text []byte, file string) (Cascade, error) {
	front, body, err := hugoFront(string(text), file)
	c := cascadeFrom(front)
	c.HasText = strings.TrimSpace(body) != ""
	if err != nil {
		return c, err
	}
	h, now := hugo{front: front}, time.Now()
	draft, err := Hides("draft", plainText(h.valueOf("draft")))
	from, until := h.timeOf("publishdate", "pubdate", "date"), h.timeOf("expirydate", "unpublishdate")
	c.Hidden = draft || from.After(now) || !until.IsZero() && !until.After(now)
	if err = cmp.Or(err, h.problem); err != nil {
		return c, fault.Wrap(fault.Invalid, file, err)
	}
	return c, nil
}

// ConfigCascade reads the cascade of a configuration of Hugo in TOML, YAML or JSON. A file such as languages.toml has
// the part of the configuration that it is called after.
func ConfigCascade(text []byte, file string) (Cascade, error) {
	var front map[string]any
	unmarshal := func(b []byte, to any) error { return yaml.Unmarshal(b, to) } // JSON is YAML
	if path.Ext(file) == ".toml" {
		unmarshal = toml.Unmarshal
	}
	if err := unmarshal(text, &front); err != nil {
		return Cascade{}, fault.New(fault.Invalid, "%s: %s", safetext.Line(file), safetext.Line(err.Error()))
	}
	if part := strings.TrimSuffix(path.Base(file), path.Ext(file)); part != "hugo" && part != "config" {
		front = map[string]any{part: front}
	}
	c := cascadeFrom(front)
	h := hugo{front: front}
	c.Ignored, c.Disabled = h.listOf("ignorefiles"), h.listOf("disablelanguages")
	c.Folder, c.Language = h.textOf("contentdir"), strings.ToLower(h.textOf("defaultcontentlanguage"))
	languages, _ := h.valueOf("languages").(map[string]any)
	c.Languages = map[string]string{}
	for name, l := range languages {
		front, _ := l.(map[string]any)
		of := hugo{front: front}
		name = strings.ToLower(name)
		c.Languages[name] = of.textOf("contentdir")
		if of.textOf("disabled") == "true" {
			c.Disabled = append(c.Disabled, name)
		}
	}
	module, _ := h.valueOf("module").(map[string]any)
	for _, mount := range tables((&hugo{front: module}).valueOf("mounts")) {
		of := hugo{front: mount}
		target := path.Clean(of.textOf("target"))
		c.Mounts = c.Mounts || (target == "content" || strings.HasPrefix(target, "content/")) &&
			path.Clean(of.textOf("source")) != target
	}
	return c, nil
}

// tables returns the tables of a list.
func tables(value any) (out []map[string]any) {
	switch v := value.(type) {
	case []map[string]any: // of TOML
		return v
	case []any:
		for _, e := range v {
			if table, ok := e.(map[string]any); ok {
				out = append(out, table)
			}
		}
	}
	return out
}

func cascadeFrom(front map[string]any) Cascade {
	c := Cascade{Fields: map[string]any{}}
	h := hugo{front: front}
	cascade := h.valueOf("cascade")
	parts := tables(cascade)
	if part, ok := cascade.(map[string]any); ok {
		parts = []map[string]any{part}
	}
	for _, part := range parts {
		p := hugo{front: part}
		targeted := p.valueOf("_target") != nil || p.valueOf("target") != nil
		for key, value := range part {
			name := keyName(key)
			if _, ok := c.Fields[name]; ok && targeted || targeted && hiding[name] == "" && name != "build" && name != "_build" {
				continue
			}
			c.Fields[name], c.Targeted = value, c.Targeted || targeted
		}
	}
	return c
}

// Origin says where a file of Hugo or Jekyll comes from.
type Origin struct {
	File   string
	Fields map[string]any // that the file has unless its front matter has them, by names in lower case
	Words  bool           // a text of tags is a list of words, as for Jekyll
}

// lost are the fields that change the address of a post.
var lost = []string{"url", "permalink", "aliases", "redirect_from"}

// noteAddresses notes the addresses that a post loses.
func (h *hugo) noteAddresses(file string) {
	for _, key := range lost {
		if v := h.valueOf(key); v != nil && v != false {
			h.notes = append(h.notes, fmt.Sprintf("%s: bakeoff does not keep the address in %s (%s); redirect it "+
				"on the web server", file, key, safetext.Clip(safetext.Line(fmt.Sprint(v)), 60)))
		}
	}
}
