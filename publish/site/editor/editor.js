'use strict';
// The script of the editor. Every call is a POST with the token of the page.
(() => {
  const at = id => document.getElementById(id);
  const token = document.querySelector('meta[name="bakeoff-token"]').content;
  let open = null; // the file that is edited: name, digest, and text as saved
  let posts = [];
  let timer = 0;
  let checks = 0; // the last check that was sent

  async function call(name, body) {
    const answer = await fetch(name, {method: 'POST', body: JSON.stringify(body),
      headers: {'Content-Type': 'application/json', 'X-Bakeoff-Token': token}});
    if (!(answer.headers.get('Content-Type') || '').startsWith('application/json')) {
      throw new Error(await answer.text());
    }
    return {status: answer.status, ...await answer.json()};
  }

  const say = text => { at('status').textContent = text; };
  const changed = () => open !== null && at('text').value !== open.text;

  function showProblems(list) {
    const box = at('problems');
    box.replaceChildren(...list.map(text => {
      const item = document.createElement('li');
      item.textContent = text;
      return item;
    }));
    box.hidden = list.length === 0;
  }

  // guarded runs an action and shows why it failed.
  const guarded = action => async event => {
    try {
      await action(event);
    } catch (problem) {
      say('bakeoff does not answer: ' + problem.message);
    }
  };

  function stateOf(post) {
    if (post.kind === 'draft' || post.kind === 'page') return post.kind;
    return post.published ? 'published' : 'scheduled or hidden';
  }

  function showList() {
    const wanted = at('filter').value.toLowerCase();
    const shown = posts.filter(p => (p.title + ' ' + p.file).toLowerCase().includes(wanted));
    at('posts').replaceChildren(...shown.map(post => {
      const item = document.createElement('li');
      const button = document.createElement('button');
      const more = document.createElement('small');
      button.type = 'button';
      button.textContent = post.title;
      more.textContent = post.date.slice(0, 10) + ' · ' + stateOf(post);
      button.append(more);
      if (open !== null && post.file === open.file) button.setAttribute('aria-current', 'true');
      button.addEventListener('click', guarded(() => read(post.file)));
      item.append(button);
      return item;
    }));
  }

  async function list() {
    const answer = await call('list', {});
    if (answer.problem) {
      showProblems([answer.problem]);
      return;
    }
    posts = answer.posts || [];
    showList();
  }

  function show(file, text, digest) {
    open = {file, text, digest};
    history.replaceState(null, '', '#' + encodeURIComponent(file)); // a reload opens it again
    at('name').textContent = file;
    at('text').value = text;
    at('text').disabled = false;
    at('conflict').hidden = true;
    showButtons();
    showList();
  }

  function showButtons() {
    at('save').disabled = !changed();
    const post = open === null ? undefined : posts.find(p => p.file === open.file);
    at('publish').hidden = post === undefined || post.kind !== 'draft';
    at('publish').disabled = changed();
  }

  async function read(file) {
    if (changed() && !confirm('The text of ' + open.file + ' is not saved. Leave it?')) return;
    const answer = await call('read', {file});
    if (answer.problem) {
      say(answer.problem);
      return;
    }
    show(answer.file, answer.text, answer.digest);
    say('');
    at('text').setSelectionRange(0, 0);
    at('text').focus();
    at('text').scrollTop = 0;
    await check();
  }

  // check asks for the preview and the problems of the text as it is now.
  async function check() {
    if (open === null) return;
    const mine = ++checks;
    const file = open.file;
    const answer = await call('check', {file, text: at('text').value});
    if (mine !== checks || open === null || open.file !== file) return; // a later text is on its way
    showProblems(answer.problem ? [answer.problem] : answer.warnings || []);
    if (answer.preview) showPreview(answer.preview);
  }

  // showPreview keeps the place to which the preview was scrolled.
  function showPreview(address) {
    const frame = at('preview');
    const before = frame.contentWindow ? frame.contentWindow.scrollY : 0;
    frame.onload = () => frame.contentWindow.scrollTo(0, before);
    frame.contentWindow.location.replace(address);
  }

  async function save() {
    if (open === null || !changed()) return;
    const text = at('text').value;
    const answer = await call('save', {file: open.file, text, digest: open.digest});
    if (answer.status === 409) {
      open.theirs = {text: answer.text, digest: answer.digest};
      at('conflict').hidden = false;
      say('Not saved');
      return;
    }
    if (!answer.digest) {
      showProblems([answer.problem]);
      say('Not saved: a build would fail. Correct the text first.');
      return;
    }
    open.text = text;
    open.digest = answer.digest;
    at('conflict').hidden = true;
    showProblems(answer.problem ? [answer.problem] : answer.warnings || []);
    if (answer.preview) showPreview(answer.preview);
    say('Saved at ' + new Date().toLocaleTimeString());
    await list();
    showButtons();
  }

  async function publish() {
    const answer = await call('publish', {file: open.file, digest: open.digest});
    if (answer.problem) {
      showProblems([answer.problem]);
      say('Not published');
      return;
    }
    open = null;
    await list();
    await read(answer.file);
    say('Published when its date has come');
  }

  async function create(event) {
    event.preventDefault();
    if (changed() && !confirm('The text of ' + open.file + ' is not saved. Leave it?')) return;
    const answer = await call('new', {title: at('new-title').value, kind: at('new-kind').value,
      date: at('new-date').value});
    if (answer.problem) {
      say(answer.problem);
      return;
    }
    at('new').reset();
    at('new-box').open = false;
    open = null;
    await list();
    await read(answer.file);
  }

  at('filter').addEventListener('input', showList);
  at('new').addEventListener('submit', guarded(create));
  at('save').addEventListener('click', guarded(save));
  at('publish').addEventListener('click', guarded(publish));
  at('take').addEventListener('click', guarded(async () => {
    show(open.file, open.theirs.text, open.theirs.digest);
    say('Loaded from disk');
    await check();
  }));
  at('keep').addEventListener('click', guarded(async () => {
    open.digest = open.theirs.digest;
    await save();
  }));
  at('text').addEventListener('input', () => {
    showButtons();
    clearTimeout(timer);
    timer = setTimeout(guarded(check), 300);
  });
  document.addEventListener('keydown', event => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') {
      event.preventDefault();
      guarded(save)(event);
    }
  });
  addEventListener('beforeunload', event => { if (changed()) event.preventDefault(); });
  guarded(async () => {
    await list();
    const wanted = decodeURIComponent(location.hash.slice(1));
    if (posts.some(p => p.file === wanted)) {
      await read(wanted);
    } else {
      say('Choose a post, or write a new one.');
    }
  })();
})();
