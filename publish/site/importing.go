package site

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
)

// Imported is what an import did.
type Imported struct {
	Files   []string `json:"files"`   // that were written, below the site
	Skipped []string `json:"skipped"` // sources whose target exists
	Notes   []string `json:"notes"`
}

// Import reads Hugo's Markdown files below from and writes them as posts, drafts and, for
// those below a folder "pages" or directly in from, pages. It replaces no file, and
// follows no link. A file that cannot be read is a note.
func (s *Site) Import(from string) (Imported, error) {
	done := Imported{Files: []string{}, Skipped: []string{}, Notes: []string{}}
	root, err := os.OpenRoot(from)
	if err != nil {
		return done, fault.Wrap(fault.NotFound, "import", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() || path.Ext(name) != ".md" || path.Base(name) == "_index.md" {
			return nil
		}
		return s.importOne(root, name, &done)
	})
	return done, fault.Wrap(fault.Invalid, "import", err)
}

func (s *Site) importOne(root *os.Root, name string, done *Imported) error {
	text, err := readBounded(root, name, content.MaxFile)
	if err != nil {
		done.Notes = append(done.Notes, safetext.Line(name)+": "+safetext.Line(err.Error()))
		return nil
	}
	post, draft, notes, err := content.FromHugo(text, safetext.Line(name))
	if err != nil {
		done.Notes = append(done.Notes, err.Error())
		return nil
	}
	done.Notes = append(done.Notes, notes...)
	stem := strings.TrimSuffix(path.Base(name), ".md")
	if stem == "index" { // a folder with the post and its images
		stem = path.Base(path.Dir(name))
	}
	slug := content.Slug(stem)
	if slug == "" {
		slug = "post-" + content.Short(name)
	}
	to := s.Config.Source + "/" + slug + ".md"
	switch {
	case draft:
		to = s.Config.Drafts + "/" + slug + ".md"
	case path.Dir(name) == "." || path.Dir(name) == "pages":
		to = s.Config.Pages + "/" + slug + ".md"
	}
	switch err := createFile(s.root, to, string(post)); {
	case errors.Is(err, fs.ErrExist):
		done.Skipped = append(done.Skipped, safetext.Line(name))
	case err != nil:
		return err
	default:
		done.Files = append(done.Files, to)
	}
	return nil
}
