package site

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
	"bakeoff/publish/site/config"
	"bakeoff/publish/site/pack"
)

// sources are the files of a site that a build cannot make again.
func sources(c config.Config) []string {
	return []string{config.File, c.Source, c.Pages, c.Drafts, c.Static}
}

func (w writer) backupCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "backup [SITE]",
		Short: "Write the sources of a site into an archive",
		Long: `backup writes the settings, posts, pages, drafts and static files into a compressed tar
archive. The output is left out, because a build makes it again. Runs are left out too.`,
		Example: "  bakeoff site backup blog\n  bakeoff site backup --to /mnt/blog.tar.gz blog",
		Args:    cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := site.Open(folder(args))
			if err != nil {
				return err
			}
			defer s.Close()
			if to == "" {
				to = "site-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fault.WithFix(fault.Wrap(fault.Invalid, "backup", err), "name another file with --to")
			}
			n, err := pack.Write(f, s.Root(), sources(s.Config))
			if closed := f.Close(); err == nil {
				err = fault.Wrap(fault.Lab, "backup", closed)
			}
			if err != nil {
				os.Remove(to)
				return err
			}
			fmt.Fprintf(w.Out, "%s: %s\n", to, unit.Count(n, "file"))
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "archive `file` to write; by default, its name contains the time")
	return c
}

func (w writer) restore() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "restore ARCHIVE SITE",
		Short: "Restore a site from an archive",
		Long: `restore extracts an archive of bakeoff site backup into a folder. It reads the whole archive
first, and extracts nothing if one of the files already exists, or does not belong to a
site.`,
		Example: "  bakeoff site restore blog.tar.gz blog\n  bakeoff site restore --replace blog.tar.gz blog",
		Args:    cli.Each("the archive", "the site"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[1], 0o755); err != nil {
				return fault.Wrap(fault.Invalid, "restore", err)
			}
			s, err := site.Open(args[1])
			if err != nil {
				return err
			}
			defer s.Close()
			open := func() (io.ReadCloser, error) { return os.Open(args[0]) }
			names, err := pack.Restore(open, s.Root(), sources(s.Config), replace)
			if err != nil {
				return err
			}
			fmt.Fprintf(w.Out, "%s: %s\n", args[1], unit.Count(len(names), "file"))
			return nil
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "overwrite files that exist")
	return c
}

func (w writer) deployCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "deploy [SITE]",
		Short: "Run the configured command that publishes the output",
		Long: `deploy prints and runs the command in DEPLOY_COMMAND of config.sh.local. DEPLOY_COMMAND is a
list of words: a program and its arguments. deploy starts the program in the folder of the
site, without a shell. BSSG's DEPLOY_SCRIPT works too. "site build" never deploys the site.`,
		Example: `  DEPLOY_COMMAND=(rsync -a --delete output/ host:/var/www/blog/)    in config.sh.local
  bakeoff site deploy --dry-run blog
  bakeoff site build blog && bakeoff site deploy blog`,
		Args: cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := site.Open(folder(args))
			if err != nil {
				return err
			}
			defer s.Close()
			argv := s.Config.Deploy
			if len(argv) == 0 {
				return fault.WithFix(fault.New(fault.Invalid, "%s has no DEPLOY_COMMAND", config.File),
					"add a line such as DEPLOY_COMMAND=(rsync -a output/ host:/var/www/blog/)")
			}
			fmt.Fprintln(w.Out, safetext.Line(shell.Quote(argv...)))
			if dry {
				return nil
			}
			ctx, stop := w.Interruptible(c.Context())
			defer stop()
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Dir = filepath.Clean(s.Dir)
			cmd.Stdout, cmd.Stderr = w.Out, w.Err
			return fault.Wrap(fault.Invalid, "deploy: "+argv[0], cmd.Run())
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "print the command only")
	return c
}
