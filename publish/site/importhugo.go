package site

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"

	"bakeoff/publish/site/content"
)

// hugoSite is what the configuration of a site of Hugo says about its texts.
type hugoSite struct {
	folder    string            // of texts whose language has no folder of its own
	language  string            // of texts that name none
	languages map[string]string // their folders, "" without one
	folders   map[string]string // languages of folders; "" is that of texts that name none
	disabled  []string          // languages that are not published
}

// hugoConfigs are the files of Hugo's configuration.
var hugoConfigs = func() (out []string) {
	for _, folder := range []string{"", "config/_default/", "config/production/"} {
		for _, part := range []string{"hugo", "config", "languages", "cascade", "module"} {
			for _, ext := range []string{".toml", ".yaml", ".yml", ".json"} {
				if folder != "" || part == "hugo" || part == "config" {
					out = append(out, folder+part+ext)
				}
			}
		}
	}
	return out
}()

// add adds what a file of the configuration says.
func (h *hugoSite) add(c content.Cascade) {
	h.folder, h.language = cmp.Or(c.Folder, h.folder), cmp.Or(c.Language, h.language)
	h.disabled = append(h.disabled, c.Disabled...)
	for name, folder := range c.Languages {
		if h.languages == nil {
			h.languages = map[string]string{}
		}
		h.languages[name] = cmp.Or(folder, h.languages[name])
	}
}

// findHugoFolders finds the folders with texts of a site of Hugo. It reports whether there are any.
func (w *importing) findHugoFolders(has func(string) bool) bool {
	w.cascadeOf(".", "")
	h := &w.hugo
	h.folders = map[string]string{}
	h.folder, h.language = cmp.Or(h.folder, "content"), cmp.Or(h.language, "en")
	languages := maps.Clone(h.languages)
	if _, ok := languages[h.language]; !ok {
		languages = map[string]string{h.language: ""}
		maps.Copy(languages, h.languages)
	}
	for _, name := range slices.Sorted(maps.Keys(languages)) {
		dir, language := path.Clean(cmp.Or(languages[name], h.folder)), name
		if dir == path.Clean(cmp.Or(languages[h.language], h.folder)) {
			language = ""
		}
		switch {
		case slices.Contains(h.disabled, name) && languages[name] != "":
			w.note(dir, "the site does not publish it; bakeoff leaves it out")
		case slices.Contains(h.disabled, name):
		case !fs.ValidPath(dir):
			w.note(dir, "bakeoff reads only folders of the site; copy the texts into the site before the import")
		case !has(dir):
		case language != "" && content.LanguageOf("x."+language+".md") == "":
			w.note(dir, "bakeoff does not import texts in %s, because it knows languages of two letters only; add the language "+
				"to the names of files, such as post.de.md, before the import", language)
		default:
			h.folders[dir] = language
		}
	}
	return len(h.folders) > 0
}

// languageOf returns the language of a text: that in its name, or that of the folder in which the walk is.
func (w *importing) languageOf(at string) string {
	return cmp.Or(content.LanguageOf(at), w.hugo.folders[w.dir])
}
