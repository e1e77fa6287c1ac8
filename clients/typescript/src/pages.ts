/** Lists that are read page by page. */

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** All items of a list: `read` fetches the page that a cursor names, and the first one without. */
export async function* paginate<T>(read: (cursor?: string) => Promise<Page<T>>): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    yield* page.items;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
