/** Shows what a receiver wrote, as text in a box of its own that says where it comes from. */

interface ExcerptProps {
  readonly text: string;
  readonly truncated: boolean;
}

export const Excerpt = ({ text, truncated }: ExcerptProps) => (
  <figure class="excerpt">
    <figcaption class="quiet">
      The receiver answered
      {truncated && " (the beginning of it)"}
    </figcaption>
    <pre tabIndex={0} dir="ltr">
      {text}
    </pre>
  </figure>
);
