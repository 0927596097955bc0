// The search of the index: shows the runs that have every chosen value and every word.
(() => {
  const form = document.getElementById('filters');
  const rows = [...document.querySelectorAll('.list > li')];
  const found = document.getElementById('found');
  const texts = rows.map(() => '');
  const at = id => document.getElementById(id).value;
  const show = () => {
    const words = at('search').toLowerCase().split(/\s+/).filter(w => w);
    const keys = [...form.querySelectorAll('select')].map(s => s.value).filter(v => v);
    const from = at('from'), to = at('to');
    let count = 0;
    rows.forEach((row, i) => {
      texts[i] = texts[i] || row.textContent.toLowerCase();
      const has = row.dataset.f.split(' '), day = row.dataset.d.slice(0, 10);
      const fits = words.every(w => texts[i].includes(w)) && keys.every(k => has.includes(k)) &&
        (!from || day >= from) && (!to || day && day <= to);
      row.hidden = !fits;
      count += fits;
    });
    found.textContent = count === rows.length ? '' : count + ' of ' + rows.length + ' runs';
  };
  form.addEventListener('input', show);
  form.addEventListener('reset', () => setTimeout(show));
  form.addEventListener('submit', e => e.preventDefault());
  form.hidden = false;
  show();
})();
