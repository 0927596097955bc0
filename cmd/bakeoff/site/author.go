package site

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/shell"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

func (w writer) init() *cobra.Command {
	var title string
	c := &cobra.Command{
		Use:   "init SITE",
		Short: "Make a new site",
		Long: `init makes a folder with settings (config.sh.local), a first post and a page. It
changes no file that exists.`,
		Example: "  bakeoff site init blog\n  bakeoff site init --title \"Notes from the quay\" blog",
		Args:    cli.Each("the folder"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := site.Init(args[0], title, time.Now()); err != nil {
				return err
			}
			fmt.Fprintf(w.Out, "%s: edit config.sh.local, then run bakeoff site build %s\n", args[0], args[0])
			return nil
		},
	}
	c.Flags().StringVar(&title, "title", "My Journal", "`title` of the site")
	return c
}

// dirFlag gives a command the flag --dir.
func dirFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "dir", ".", "`folder` of the site")
}

func (w writer) createCommand() *cobra.Command {
	var dir, date string
	var d site.Draft
	var edit, stdin bool
	c := &cobra.Command{
		Use:   "new TITLE",
		Short: "Write a new post, page or draft",
		Long: `new writes a Markdown file with front matter and prints its name. With --stdin, the text
comes from standard input. A post with a date in the future stays unpublished until that
date.`,
		Example: `  bakeoff site new "Nine systems, one link"
  bakeoff site new --tags "bsd, http" --edit "Nine systems, one link"
  bakeoff site new --draft "An idea"
  bakeoff site new --page About
  bakeoff site new --date "2030-01-01 08:00:00 +0100" --stdin "Happy new year" < text.md`,
		Args: cli.Each("the title"),
		RunE: func(c *cobra.Command, args []string) error {
			if d.Page && d.Draft {
				return cli.Usage(c, fmt.Errorf("--page and --draft cannot be used together"))
			}
			s, err := site.Open(dir)
			if err != nil {
				return err
			}
			defer s.Close()
			if d.Date, err = s.Date(date, time.Now()); err != nil {
				return cli.Usage(c, err)
			}
			if stdin {
				text, err := io.ReadAll(io.LimitReader(w.In, maxInput))
				if err != nil {
					return fault.Wrap(fault.Invalid, "standard input", err)
				}
				d.Body = string(text)
			}
			d.Title = args[0]
			name, err := s.New(d)
			if err != nil {
				return err
			}
			path := filepath.Join(dir, filepath.FromSlash(name))
			fmt.Fprintln(w.Out, path)
			if edit {
				return w.runEditor(c.Context(), path)
			}
			return nil
		},
	}
	f := c.Flags()
	dirFlag(c, &dir)
	f.StringSliceVar(&d.Tags, "tags", nil, "`tags`, separated by commas")
	f.StringVar(&d.Slug, "slug", "", "last part of the `address`; by default, from the title")
	f.StringVar(&d.Description, "description", "", "one `sentence` for lists, feeds and previews")
	f.StringVar(&date, "date", "", "`date` of the post; by default, now")
	f.BoolVar(&d.Page, "page", false, "write a page instead of a post")
	f.BoolVar(&d.Draft, "draft", false, "write a draft, which is not published")
	f.BoolVar(&edit, "edit", false, "open the file in $EDITOR")
	f.BoolVar(&stdin, "stdin", false, "read the text from standard input")
	return c
}

// maxInput bounds a text from standard input, in bytes.
const maxInput = 16 << 20

// withPost calls do with the post of a site that name names.
func withPost(dir, name string, do func(*site.Site, site.Listed) error) error {
	s, err := site.Open(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := s.Find(name, time.Now())
	if err != nil {
		return err
	}
	return do(s, l)
}

func (w writer) editCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "edit POST",
		Short: "Open a post in $EDITOR",
		Long: `edit opens a post, page or draft in $VISUAL or $EDITOR. POST is a file, a file name, a slug,
or a number that bakeoff site list prints.`,
		Example: "  bakeoff site edit first-post\n  bakeoff site edit 1",
		Args:    cli.Each("the post"),
		RunE: func(c *cobra.Command, args []string) error {
			return withPost(dir, args[0], func(_ *site.Site, l site.Listed) error {
				return w.runEditor(c.Context(), filepath.Join(dir, filepath.FromSlash(l.File)))
			})
		},
	}
	dirFlag(c, &dir)
	return c
}

// runEditor opens a file in the person's editor. The variable may hold arguments; it is
// split into words as a shell does, and no shell runs.
func (w writer) runEditor(ctx context.Context, path string) error {
	argv, err := shell.Fields(cmp.Or(w.Env("VISUAL"), w.Env("EDITOR")), func(string) string { return "" })
	if err != nil || len(argv) == 0 {
		return fault.WithFix(fault.New(fault.Invalid, "the variables VISUAL and EDITOR name no editor"),
			"set one of them, or edit "+path)
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return fault.Wrap(fault.Invalid, "edit", cmd.Run())
}

func (w writer) removeCommand() *cobra.Command {
	var dir string
	var yes bool
	c := &cobra.Command{
		Use:   "delete POST",
		Short: "Delete a post",
		Long: `delete asks for confirmation, and then removes the file of a post, page or draft. The next
build removes its page.`,
		Example: "  bakeoff site delete first-post\n  bakeoff site delete --yes src/2025-04-01-first.md",
		Args:    cli.Each("the post"),
		RunE: func(c *cobra.Command, args []string) error {
			return withPost(dir, args[0], func(s *site.Site, l site.Listed) error {
				if !yes {
					fmt.Fprintf(w.Err, "Delete %s (%s)? [y/N] ", safetext.Line(l.File), safetext.Line(l.Title))
					answer, _ := bufio.NewReader(io.LimitReader(w.In, 1024)).ReadString('\n')
					if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
						return fault.WithFix(fault.New(fault.Invalid, "nothing deleted"), "answer y, or use --yes")
					}
				}
				if err := s.Delete(l); err != nil {
					return err
				}
				fmt.Fprintln(w.Out, "deleted "+safetext.Line(l.File))
				return nil
			})
		},
	}
	dirFlag(c, &dir)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}
